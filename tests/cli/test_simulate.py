"""`gangwright simulate` and `snapshot`: what would happen, and that it is the same thing that is decided again."""

import msgspec
import pytest
import yaml

from scheduler.cli.submission import PRIORITIES
from tests.cli.support.manifests import OURS, a_job


async def test_a_job_that_fits_starts_now(cluster, write):
    """Exit code 0, and a seat for every pod, on nodes that are free."""
    cluster.gang("runs", 1, gpus=8, node="r0-n0")

    said = await cluster.say_offline("simulate", "-f", write(a_job()), "-n", "team", "-o", "json")

    (own,) = said.json
    assert (said.code, own["starts"], own["answer"]) == (0, True, "starts now")
    assert own["seats"] == {"train-0": "r1-n0", "train-1": "r1-n1"}


async def test_a_job_that_does_not_fit_waits(cluster, write):
    """Exit code 1, the reason, and the numbers."""
    cluster.gang("runs", 1, gpus=8, node="r0-n0")

    said = await cluster.say_offline("simulate", "-f", write(a_job(size=4)), "-n", "team")

    assert said.code == 1
    (row,) = said.rows
    assert (row["ANSWER"], row["REASON"]) == ("waits", "InsufficientResources")
    assert "needs 4 × 8" in row["MESSAGE"]


async def test_a_resource_that_no_node_has_is_named(cluster, write):
    """HAMi's share of a GPU is named, with what to request instead."""
    job = a_job()
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "3000"

    said = await cluster.say_offline("simulate", "-f", write(job), "-n", "team")

    (row,) = said.rows
    assert (said.code, row["ANSWER"], row["REASON"]) == (1, "waits", "ExceedsCluster")
    assert "(no node has nvidia.com/gpumem). Request whole devices" in row["MESSAGE"]


async def test_who_waits_already_comes_first(cluster, write):
    """The new job is last in the queue: room that an older gang would be given is not there for it."""
    cluster.gang("older", 3, gpus=8)

    said = await cluster.say_offline("simulate", "-f", write(a_job(size=2)), "-n", "team")

    assert (said.code, said.rows[0]["REASON"]) == (1, "InsufficientResources")


async def test_its_priority_class_counts(cluster, write):
    """A job of a higher class goes before who waits; its value is read from the cluster."""
    cluster.gang("older", 3, gpus=8)
    cluster.put("urgent", PRIORITIES, "", value=1000)
    job = a_job(spec={"priorityClassName": "urgent"})

    assert (await cluster.say_offline("simulate", "-f", write(job), "-n", "team")).code == 0


async def test_whom_it_would_cost(cluster, write):
    """A job of a higher class that lacks room names who would have to leave, and where it would sit then.

    A pod that is no gang's goes by its own name.
    """
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        cluster.pod(f"on-{node}", gpus=8, node=node)
    cluster.put("urgent", PRIORITIES, "", value=1000)
    job = write(a_job(size=1, spec={"priorityClassName": "urgent"}))

    table = await cluster.say_offline("simulate", "-f", job, "-n", "team")
    (own,) = (await cluster.say_offline("simulate", "-f", job, "-n", "team", "-o", "json")).json

    assert (table.code, "WOULD PREEMPT" in table.out) == (0, True)
    (victim,) = own["victims"]
    assert (own["answer"], victim["pods"]) == ("would preempt", 1)
    assert victim["gang"] == f"on-{own['seats']['train-0']}"


async def test_explain_names_who_would_leave(cluster):
    """A gang that waits for room that others would give way for says whose."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        cluster.gang(f"on-{node}", 1, gpus=8, node=node)
    cluster.gang("urgent", 1, gpus=8, priority=1000)

    said = await cluster.say_offline("explain", "team/urgent")

    assert "would preempt: team/on-r" in said.out


async def test_nothing_is_written(cluster, write):
    """A dry run only reads."""
    await cluster.say_offline("simulate", "-f", write(a_job()), "-n", "team")

    assert {call.method for call in cluster.calls} == {"GET"}


KINDS = {
    "Deployment": {"replicas": 2},
    "StatefulSet": {"replicas": 2, "podManagementPolicy": "Parallel"},
    "ReplicaSet": {"replicas": 2},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_replicas(cluster, write, kind):
    """Whatever makes the pods, they are counted as it would make them."""
    job = a_job()
    thing = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {**KINDS[kind], "template": job["spec"]["template"]},
    }

    (own,) = (await cluster.say_offline("simulate", "-f", write(thing), "-o", "json")).json

    assert len(own["seats"]) == 2


async def test_a_job_set(cluster, write):
    """Replicated Jobs with roles are one gang."""
    driver, worker = (a_job(size=1, quorum="driver=1,worker=2")["spec"]["template"] for _ in range(2))
    driver["metadata"]["annotations"][OURS + "role"] = "driver"
    worker["metadata"]["annotations"][OURS + "role"] = "worker"
    thing = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {
            "replicatedJobs": [
                {"name": "driver", "template": {"spec": {"template": driver}}},
                {
                    "name": "worker",
                    "replicas": 2,
                    "template": {"spec": {"parallelism": 1, "template": worker}},
                },
            ]
        },
    }

    (own,) = (await cluster.say_offline("simulate", "-f", write(thing), "-o", "json")).json

    assert sorted(own["seats"]) == ["set-driver-0", "set-worker-0", "set-worker-1"]


async def test_a_training_job_of_kubeflow(cluster, write):
    """Replica specs by role are counted, whatever the job is called."""
    template = a_job(size=2)["spec"]["template"]
    roles = {"Master": {"template": template}, "Worker": {"replicas": 1, "template": template}}
    thing = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "torch"},
        "spec": {"pytorchReplicaSpecs": roles},
    }

    (own,) = (await cluster.say_offline("simulate", "-f", write(thing), "-o", "json")).json

    assert sorted(own["seats"]) == ["torch-master-0", "torch-worker-0"]


async def test_a_group_beside_its_pods(cluster, write):
    """A PodGroup among the manifests says how many the gang needs."""
    job = a_job(gang="")
    job["spec"]["template"]["metadata"]["annotations"]["scheduling.volcano.sh/group-name"] = "grouped"
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "grouped"},
        "spec": {"minMember": 2},
    }

    said = await cluster.say_offline("simulate", "-f", write(group, job), "-n", "team", "-o", "json")

    assert [(own["gang"], own["starts"]) for own in said.json] == [("grouped", True)]


def with_devices(cluster) -> None:
    """Two devices on each of two nodes, and one class for them."""
    for node in ("r0-n0", "r1-n0"):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        own = {
            "driver": "gpu.example.com",
            "pool": pool,
            "nodeName": node,
            "devices": [{"name": "a"}, {"name": "b"}],
        }
        cluster.put(f"slice-{node}", "/apis/resource.k8s.io/v1/resourceslices", "", spec=own)
    cluster.put("gpu", "/apis/resource.k8s.io/v1/deviceclasses", "", spec={})


@pytest.mark.parametrize(("size", "starts"), [(4, True), (5, False)])
async def test_a_claim_template_beside_its_pods(cluster, write, size, starts):
    """The template among the manifests says how many devices each pod needs, even one with a selector of its own."""
    with_devices(cluster)
    asked = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": asked}]}}},
    }
    job = a_job(
        size=size, gpus=0, spec={"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "one"}]}
    )

    said = await cluster.say_offline("simulate", "-f", write(template, job), "-n", "team", "-o", "json")

    (own,) = said.json
    assert own["starts"] is starts
    assert sorted(own["seats"].values()) == (["r0-n0", "r0-n0", "r1-n0", "r1-n0"] if starts else [])
    assert starts or "of device class gpu with selectors" in own["message"]


SNAG = {
    "another scheduler": (a_job(spec={"schedulerName": "default-scheduler"}), "must be gangwright"),
    "too few pods": (a_job(size=2, quorum=3), "requires 3 members, but these manifests create 2"),
    "a wrong annotation": (a_job(quorum="many"), "gangwright.io/min-members"),
    "a fraction of a GPU": (a_job(), "gpu-fraction: '0.5': unsupported"),
}
SNAG["a fraction of a GPU"][0]["spec"]["template"]["metadata"]["annotations"]["gpu-fraction"] = "0.5"


@pytest.mark.parametrize("case", SNAG)
async def test_what_is_wrong_is_said(cluster, write, case):
    """A job that would never be placed as it is does not start, and what to mend is named."""
    job, named = SNAG[case]

    said = await cluster.say_offline("simulate", "-f", write(job), "-n", "team")

    assert said.code == 1
    assert named in said.err


WRONG = {
    "no file": (["-f", "/nowhere/job.yaml"], "/nowhere/job.yaml"),
    "no snapshot": (["--snapshot", "/nowhere/s.json"], "/nowhere/s.json"),
    "nothing": ([], "--snapshot"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_words(cluster, case):
    """A wrong question ends with 2 and names what was wrong."""
    words, named = WRONG[case]

    said = await cluster.say_offline("simulate", *words)

    assert (said.code, named in said.err) == (2, True)


TEXTS = {
    "no YAML": ("a: [", "must be YAML"),
    "no object": ("- 1", "apiVersion and kind"),
    "nothing in it": ("---\n", "contains no object"),
    "no name": ("{apiVersion: v1, kind: Pod, metadata: {}}", "metadata.name"),
    "an empty template": (
        "{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: null}}",
        "Job/x",
    ),
    "no template": ("{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {}}", "Job/x"),
    "a number of the wrong kind": (
        "{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: two, template: {}}}",
        "Job/x",
    ),
    "a field of the wrong type": (
        "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: 5}}",
        "$.spec.containers",
    ),
    "an unknown class": (
        yaml.safe_dump(a_job(spec={"priorityClassName": "nope"})),
        "not found. Use one of: high",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
async def test_wrong_manifests(cluster, tmp_path, case):
    """What cannot be read is named with its place: exit code 2, no traceback."""
    text, named = TEXTS[case]
    cluster.put("high", PRIORITIES, "", value=1000)
    place = tmp_path / "wrong.yaml"
    place.write_text(text)

    said = await cluster.say_offline("simulate", "-f", str(place))

    assert said.code == 2, said
    assert named in said.err
    assert "Traceback" not in said.err


async def test_a_snapshot_is_decided_alike(cluster, tmp_path, write):
    """What the cluster answers, its snapshot answers: to the same job, and to those that wait, byte for byte."""
    cluster.gang("first", 3, gpus=8)
    cluster.gang("second", 2, gpus=8, created="2026-01-01T00:01:00Z")
    job = write(a_job(size=1, gpus=4))
    taken = tmp_path / "s.json"
    taken.write_text((await cluster.say("snapshot")).out)

    live = await cluster.say_offline("simulate", "-f", job, "-n", "team", "-o", "json")
    again = await cluster.say("simulate", "-f", job, "-n", "team", "-o", "json", "--snapshot", str(taken))
    traces = {(await cluster.say("simulate", "--snapshot", str(taken), "--trace")).out for _ in range(3)}

    assert live.json == again.json
    assert len(traces) == 1
    steps = [msgspec.json.decode(line) for line in traces.pop().splitlines()]
    assert [(step["gang"]["key"][1], step["answer"]) for step in steps[:2]] == [
        ("first", "place"),
        ("second", "wait"),
    ]


async def test_a_redacted_snapshot(cluster, tmp_path):
    """No name is left in it, and the answers are the same."""
    cluster.gang("secretive", 3, gpus=8)
    cluster.gang("second", 2, gpus=8, created="2026-01-01T00:01:00Z")

    said = await cluster.say("snapshot", "--redact")

    assert not any(name in said.out for name in ("secretive", "r0-n0", "team"))
    taken = tmp_path / "s.json"
    taken.write_text(said.out)
    again = await cluster.say("simulate", "--snapshot", str(taken), "-o", "json")
    assert [own["answer"] for own in again.json] == ["starts now", "waits"]


async def test_a_torn_snapshot(cluster, tmp_path):
    """A file that was cut off is refused, and where is said."""
    taken = tmp_path / "s.json"
    taken.write_text((await cluster.say("snapshot")).out[:300])

    said = await cluster.say("simulate", "--snapshot", str(taken))

    assert said.code == 2
    assert "truncated (of 300 bytes)" in said.err


@pytest.mark.parametrize("more", [[], ["--snapshot", "{snapshot}"]])
async def test_manifests_without_pods_are_no_question(cluster, write, tmp_path, more):
    """Nobody would start, so the answer is not that all of them would: exit code 2, and why."""
    taken = tmp_path / "s.json"
    taken.write_text((await cluster.say("snapshot")).out)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}

    said = await cluster.say_offline(
        "simulate", "-f", write(service), *(own.format(snapshot=taken) for own in more), "-o", "json"
    )

    assert (said.code, said.out) == (2, "")
    assert "no pods found" in said.err
    assert "no gang waits" not in said.err
