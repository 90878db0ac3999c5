"""Stories of the status service: a person with a token of his own asks it through the command line, and it acts for
him.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest_asyncio
import yaml

from bench.plane import where
from bench.plane.client import Client
from bench.plane.nodes import GPU
from tests.cli.support.speaking import Said, say
from tests.stories.support.cluster import Cluster
from tests.stories.support.people import binding, hired
from tests.stories.support.workloads import gang, made_by
from tests.stories.test_cli import named

PERSON = "jane"
Ask = Callable[..., Awaitable[Said]]


@pytest_asyncio.fixture
async def kubeconfig(cluster: Cluster, tmp_path: Path) -> Path:
    """Of a service account that may edit in the story's namespace, and nothing anywhere else."""
    plane, home = cluster.gangwright.plane, cluster.namespace
    person = await hired(cluster.api, plane, home, PERSON, tmp_path)
    plane.apply([binding(PERSON, "edit", PERSON, home, inside=home)])
    return person.kubeconfig


@pytest_asyncio.fixture
async def ask(cluster: Cluster, kubeconfig: Path) -> Ask:
    """The command, with the person's kubeconfig and `--server`."""

    async def asked(*words: str) -> Said:
        server = ("--server", cluster.gangwright.status)
        return await asyncio.to_thread(say, *words, *server, KUBECONFIG=str(kubeconfig))

    return asked


@pytest_asyncio.fixture
async def stranger(api: Client, neighbour: str) -> str:
    """A gang that runs in a namespace of others."""
    for member in gang("secret", 1, gpus=8):
        await api.create(where("pods", neighbour), member)
    return neighbour


async def test_the_service_tells_what_everybody_may_know(cluster: Cluster, ask: Ask, stranger: str):
    """list and queue show a person the gangs of his namespace by name, and those of others as numbers."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    await cluster.submit(*gang("runs", 2, gpus=8))
    await cluster.running("runs", 2)
    await cluster.submit(*gang("waits", 3, gpus=8))
    await cluster.told("waits", "InsufficientResources")

    rows = (await ask("list", "-A", "-o", "json")).json
    table = await ask("list", "-A")
    queue = (await ask("queue", "-o", "json")).json
    explained = await ask("explain", "waits", "-o", "json")

    assert named(rows, "runs")["state"] == "running"
    assert named(queue, "waits")["reason"] == "InsufficientResources"
    assert explained.json["shortfalls"][0]["needed"] == 3
    assert {row["name"] for row in rows} == {"runs", "waits", None}
    assert "(hidden)" in table.out
    assert stranger not in table.out
    assert (await ask("explain", f"{stranger}/secret")).code == 2


async def test_a_dry_run_of_the_service_comes_true(cluster: Cluster, ask: Ask, tmp_path: Path):
    """simulate --server foretells the seats that the gang then gets; of the next gang it says what it lacks."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    await cluster.submit(*gang("runs", 1, gpus=8))
    await cluster.running("runs", 1)
    thought, large = tmp_path / "thought.yaml", tmp_path / "large.yaml"
    thought.write_text(yaml.safe_dump(made_by("Job", "thought", 2, gpus=8)))
    large.write_text(yaml.safe_dump(made_by("Job", "large", 4, gpus=8)))

    foretold = await ask("simulate", "-f", str(thought), "-o", "json")
    short = await ask("simulate", "-f", str(large))
    await cluster.submit(made_by("Job", "thought", 2, gpus=8))
    places = await cluster.seated("thought", 2)
    again = await ask("simulate", "-f", str(thought), "-o", "json")

    (said,) = foretold.json
    assert (foretold.code, said["answer"]) == (0, "starts now")
    assert sorted(said["seats"].values()) == sorted(places.values())
    assert (short.code, "fits 3" in short.out) == (1, True)
    assert (again.code, again.json[0]["seats"]) == (0, places)


async def test_a_dry_run_elsewhere_is_refused(ask: Ask, stranger: str, tmp_path: Path):
    """Who may not create pods in a namespace learns nothing there, and is told which right he lacks."""
    thought = tmp_path / "thought.yaml"
    thought.write_text(yaml.safe_dump(made_by("Job", "thought", 2)))

    said = await ask("simulate", "-f", str(thought), "-n", stranger)

    assert said.code == 2
    assert "you may not create pods" in said.err


async def test_nodes_are_shown_to_everybody(cluster: Cluster, ask: Ask):
    """nodes --server counts the free shapes, without any right to read nodes."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=8)
    await cluster.submit(*gang("runs", 1, gpus=8))
    await cluster.running("runs", 1)

    shapes = (await ask("nodes", "-o", "json")).json["shapes"]

    assert {own["free"][GPU]: own["nodes"] for own in shapes} == {8: 3, 0: 1}


async def test_a_node_is_drained_only_by_who_may(cluster: Cluster, ask: Ask):
    """drain --server is refused to a person who may edit pods, but not nodes."""
    (node,) = await cluster.nodes(racks=1, nodes_per_rack=1, gpus=8)

    said = await ask("drain", node)

    assert said.code == 2
    assert "you may not patch nodes" in said.err
