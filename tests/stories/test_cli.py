"""Stories of the command line: what a person asks and does, on a cluster with Gangwright in it."""

import asyncio
import json

import yaml

from bench.plane.certificates import Identity
from bench.plane.client import where
from tests.cli.support.speaking import Said, say
from tests.stories.support.cluster import Cluster
from tests.stories.support.workloads import gang, made_by


async def gangwright(cluster: Cluster, *words: str) -> Said:
    """The command, run with a person's kubeconfig."""
    kubeconfig = str(cluster.gangwright.plane.kubeconfig())
    return await asyncio.to_thread(say, *words, KUBECONFIG=kubeconfig)


def named(rows: list[dict], name: str) -> dict:
    return next(row for row in rows if row["name"] == name)


async def test_who_runs_and_who_waits(cluster: Cluster):
    """list, queue and explain tell of a gang that runs and of one that lacks room, with the numbers that events
    tell.
    """
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    await cluster.submit(*gang("runs", 2, gpus=8))
    await cluster.running("runs", 2)
    await cluster.submit(*gang("waits", 3, gpus=8))
    told = await cluster.told("waits", "InsufficientResources")

    rows = (await gangwright(cluster, "list", "--offline", "-n", cluster.namespace, "-o", "json")).json
    queue = (await gangwright(cluster, "queue", "--offline", "-o", "json")).json
    explained = await gangwright(cluster, "explain", "--offline", f"{cluster.namespace}/waits", "-o", "json")

    assert named(rows, "runs")["state"] == "running"
    assert (named(rows, "waits")["state"], named(queue, "waits")["position"]) == ("waiting", 1)
    assert explained.json["gang"]["message"] == told
    assert explained.json["shortfalls"][0]["needed"] == 3


async def test_rooms_and_racks(cluster: Cluster):
    """nodes shows every rack, and how much of it is free."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    await cluster.submit(*gang("runs", 1, gpus=8))
    await cluster.running("runs", 1)

    said = await gangwright(cluster, "nodes", "--offline")
    shapes = (await gangwright(cluster, "nodes", "--offline", "-o", "json")).json["shapes"]

    assert said.code == 0
    assert said.out.count("█") == 2, "one node in use, one in the legend"
    assert {own["free"]["nvidia.com/gpu"]: own["nodes"] for own in shapes} == {8: 3, 0: 1}


async def test_a_dry_run_comes_true(cluster: Cluster, tmp_path):
    """simulate says where a job would go, submit puts it there, and simulate says then that it runs there, and of the
    next one that it waits.
    """
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    place = tmp_path / "job.yaml"
    place.write_text(yaml.safe_dump(made_by("Job", "train", 2, gpus=8)))
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(made_by("Job", "other", 3, gpus=8)))

    (foretold,) = (
        await gangwright(
            cluster, "simulate", "--offline", "-f", str(place), "-n", cluster.namespace, "-o", "json"
        )
    ).json
    done = await gangwright(
        cluster, "submit", "-f", str(place), "-n", cluster.namespace, "--wait", "--timeout", "60s"
    )

    assert done.code == 0, done.err
    assert sorted(foretold["seats"].values()) == sorted((await cluster.bound("train")).values())
    again = await gangwright(
        cluster, "simulate", "--offline", "-f", str(place), "-n", cluster.namespace, "-o", "json"
    )
    assert (again.code, again.json[0]["answer"]) == (0, "runs")
    assert again.json[0]["seats"] == await cluster.bound("train")
    refused = await gangwright(cluster, "simulate", "--offline", "-f", str(other), "-n", cluster.namespace)
    assert (refused.code, "InsufficientResources" in refused.out) == (1, True)


async def test_a_wrong_job_is_not_submitted(cluster: Cluster, tmp_path):
    """A job that would wait for ever is refused with what is missing, and nothing is in the cluster."""
    place = tmp_path / "job.yaml"
    place.write_text(yaml.safe_dump(made_by("Job", "train", 2, min_members=5)))

    said = await gangwright(cluster, "submit", "-f", str(place), "-n", cluster.namespace)

    assert said.code == 2
    assert "requires 5 members" in said.err
    assert await cluster.api.items(where("jobs", cluster.namespace)) == []


async def test_suspend_and_resume(cluster: Cluster):
    """A suspended gang gives its room to another; resumed, it runs again when there is room."""
    await cluster.nodes(racks=1, nodes_per_rack=2, gpus=8)
    await cluster.submit(made_by("Job", "first", 2, gpus=8))
    await cluster.running("first", 2)
    await cluster.submit(*gang("second", 2, gpus=8))

    done = await gangwright(cluster, "suspend", f"{cluster.namespace}/first")

    assert done.code == 0, done.err
    await cluster.running("second", 2, within=60)
    rows = (await gangwright(cluster, "list", "--offline", "-n", cluster.namespace, "-o", "json")).json
    assert {row["name"]: row["state"] for row in rows} == {"first": "suspended", "second": "running"}
    assert f"gangwright resume {cluster.namespace}/first" in named(rows, "first")["message"]
    await cluster.remove("second")
    assert (await gangwright(cluster, "resume", f"{cluster.namespace}/first")).code == 0
    await cluster.running("first", 2, within=60)


async def test_a_snapshot_is_decided_alike(cluster: Cluster, tmp_path):
    """A snapshot of the cluster, with names or without, gives the answers that the cluster gives."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    await cluster.submit(*gang("runs", 2, gpus=8))
    await cluster.running("runs", 2)
    await cluster.submit(*gang("waits", 3, gpus=8))
    await cluster.told("waits", "InsufficientResources")
    taken, hidden = tmp_path / "s.json", tmp_path / "hidden.json"
    taken.write_text((await gangwright(cluster, "snapshot")).out)
    hidden.write_text((await gangwright(cluster, "snapshot", "--redact")).out)

    whole = await gangwright(cluster, "simulate", "--snapshot", str(taken), "-o", "json")
    redacted = await gangwright(cluster, "simulate", "--snapshot", str(hidden), "-o", "json")
    trace = await gangwright(cluster, "simulate", "--snapshot", str(taken), "--trace")

    queue = named((await gangwright(cluster, "queue", "--offline", "-o", "json")).json, "waits")
    assert [(own["gang"], own["reason"]) for own in whole.json] == [("waits", queue["reason"])]
    assert [own["answer"] for own in whole.json] == [own["answer"] for own in redacted.json]
    assert json.loads(trace.out.splitlines()[0])["decision"]["shortfall"]["needed"] == 3
    assert cluster.namespace not in hidden.read_text()


async def test_somebody_without_rights(cluster: Cluster):
    """Who may not read nodes is told which right he lacks, and what to do."""
    kubeconfig = str(cluster.gangwright.plane.kubeconfig(Identity("nobody")))

    said = await asyncio.to_thread(say, "list", "--offline", KUBECONFIG=kubeconfig)

    assert said.code == 2
    assert "403" in said.err
    assert "Traceback" not in said.err
