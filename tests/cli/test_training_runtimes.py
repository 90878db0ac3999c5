"""A TrainJob and its runtime: the pods that follow from both, and the gang that they are."""

import pytest

from scheduler.cli.manifest_pods import templates
from scheduler.cli.training_runtimes import FOUND, merged
from scheduler.errors import SettingsError
from tests.cli.support import speaking
from tests.cli.support.manifests import OURS
from tests.cli.support.operators import KINDS, RUNTIMES, a_runtime, a_step, a_train_job
from tests.cli.support.speaking import GPU
from tests.kube.support.api_server import Refuse

GANG = {
    "metadata": {
        "labels": {OURS + "gang": "tune"},
        "annotations": {OURS + "min-members": "2"},
    }
}
MPI = {"numNodes": 1, "mpi": {"runLauncherAsNode": True}}


@pytest.fixture(autouse=True)
def _operators(monkeypatch):
    monkeypatch.setattr(speaking, "DISCOVERY", KINDS)


@pytest.fixture
def runs(cluster):
    """Puts a runtime into the cluster."""

    def put(runtime):
        cluster.objects.setdefault(RUNTIMES, {})["", "torch"] = runtime

    return put


def made(runtime, job):
    found = templates({**job, FOUND: runtime}, "team")
    return {own.name: own.count for own in found}


INITIALIZED = (
    a_step("dataset-initializer", "dataset-initializer"),
    a_step("node", "trainer", dependsOn=[{"name": "dataset-initializer", "status": "Complete"}]),
)

PODS = {
    "as the runtime says": (a_runtime(policy={"numNodes": 3}), a_train_job(), {"tune-node": 3}),
    "as the job says": (a_runtime(), a_train_job(numNodes=4), {"tune-node": 4}),
    "without a policy": (a_runtime(policy={}), a_train_job(), {"tune-node": 1}),
    "an initializer": (
        a_runtime(*INITIALIZED),
        a_train_job(numNodes=2),
        {"tune-dataset-initializer": 1, "tune-node": 2},
    ),
    "a launcher that trains": (
        a_runtime(a_step("node"), a_step("launcher", "trainer"), policy=MPI),
        a_train_job(numNodes=4),
        {"tune-node": 3, "tune-launcher": 1},
    ),
    "a launcher beside the nodes": (
        a_runtime(a_step("node"), a_step("launcher", "trainer"), policy={"mpi": {}}),
        a_train_job(numNodes=4),
        {"tune-node": 4, "tune-launcher": 1},
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_how_many_pods_are_made(case):
    """As many as Trainer makes of the policy and of the job's number of nodes."""
    runtime, job, expected = PODS[case]

    assert made(runtime, job) == expected


def test_what_the_job_says_of_its_pods():
    """Its patch and its resources are merged into the runtime's template, by key and by name."""
    patch = {"metadata": GANG["metadata"], "spec": {"nodeSelector": {"pool": "a"}}}
    job = a_train_job(patch=patch, numNodes=2, resourcesPerNode={"limits": {GPU: 8}})

    (own,) = templates({**job, FOUND: a_runtime()}, "team")

    assert own.said("labels") == {OURS + "gang": "tune"}
    assert own.pod["spec"]["nodeSelector"] == {"pool": "a"}
    assert own.pod["spec"]["schedulerName"] == "gangwright"
    (container,) = own.pod["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": 1, GPU: 8}}


def test_a_merge():
    """Lists of what has no name are replaced, nothing that is patched is kept, and what is null is taken away."""
    old = {"a": {"x": 1, "y": 2}, "named": [{"name": "n", "v": 1}], "plain": [1], "gone": 1}
    patch = {"a": {"y": 3}, "named": [{"name": "n", "w": 2}, {"name": "m"}], "plain": [2], "gone": None}

    assert merged(old, patch) == {
        "a": {"x": 1, "y": 3},
        "named": [{"name": "n", "v": 1, "w": 2}, {"name": "m"}],
        "plain": [2],
    }


@pytest.mark.parametrize("source", ["coscheduling", "volcano"])
async def test_a_runtime_with_a_pod_group_makes_a_gang(cluster, write, runs, source):
    """Trainer makes the group and names it on the pods, so the job needs no line of its own."""
    runs(a_runtime(podGroupPolicy={source: {}}))
    place = write(a_train_job(numNodes=3))

    foretold = await cluster.say_offline("simulate", "-f", place, "-n", "team", "-o", "json")
    applied = await cluster.say("submit", "-f", place, "-n", "team")

    (own,) = foretold.json
    assert (foretold.code, own["gang"], own["answer"], own["pods"]) == (0, "tune", "starts now", 3)
    assert (applied.code, "error:" in applied.err, "warning:" in applied.err) == (0, False, False)
    assert [sent for *_, sent in cluster.patches] == [a_train_job(numNodes=3)]


async def test_a_patch_makes_a_gang(cluster, write, runs):
    """The job's own lines are in its patch of the runtime."""
    runs(a_runtime())

    said = await cluster.say("submit", "-f", write(a_train_job(patch=GANG, numNodes=2)), "-n", "team")

    assert (said.code, "error:" in said.err, "warning:" in said.err) == (0, False, False)


async def test_the_lines_that_make_a_gang_are_said(cluster, write, runs):
    """A runtime is shared, so they go into the job's patch of it."""
    runs(a_runtime())

    said = await cluster.say("submit", "-f", write(a_train_job(numNodes=2)), "-n", "team")

    where = "trainingRuntimeSpec.template.spec.replicatedJobs[node].template.spec.template.metadata"
    assert said.code == 0
    assert f"set under spec.runtimePatches[0].{where} the label gangwright.io/gang: tune" in said.err


async def test_a_group_of_what_comes_one_after_the_other_is_refused(cluster, write, runs):
    """Trainer's group counts the initializer, which is done before the nodes are made: it is said of the runtime."""
    runs(a_runtime(*INITIALIZED, podGroupPolicy={"coscheduling": {}}))

    said = await cluster.say("submit", "-f", write(a_train_job(numNodes=2)), "-n", "team")

    assert (said.code, cluster.patches) == (2, [])
    field = "ClusterTrainingRuntime/torch: spec.template.spec.replicatedJobs[node].dependsOn"
    assert f"error: TrainJob/tune: {field}: 'dataset-initializer': leave it out" in said.err


async def test_the_scheduler_of_a_runtime(cluster, write, runs):
    """A job cannot patch it, so the runtime is named that must say it."""
    runtime = a_runtime()
    del runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "schedulerName"
    ]
    runs(runtime)

    said = await cluster.say("submit", "-f", write(a_train_job()), "-n", "team")

    assert said.code == 2
    assert "ClusterTrainingRuntime/torch: spec.template.spec.replicatedJobs[node]" in said.err
    assert "schedulerName: must be gangwright, not 'default-scheduler'" in said.err


async def test_a_runtime_of_the_same_file(cluster, write):
    """It counts though the cluster has none yet."""
    said = await cluster.say_offline(
        "simulate", "-f", write(a_runtime(), a_train_job(patch=GANG, numNodes=2)), "-n", "team", "-o", "json"
    )

    assert (said.code, [own["pods"] for own in said.json]) == (0, [2])


async def test_a_runtime_that_does_not_exist(cluster, write):
    """It is named, with how to see those that do."""
    said = await cluster.say("submit", "-f", write(a_train_job()), "-n", "team")

    assert said.code == 2
    assert (
        "TrainJob/tune: spec.runtimeRef.name = 'torch': not found. Name an existing ClusterTrainingRuntime"
        in said.err
    )


async def test_a_runtime_that_may_not_be_read(cluster, write):
    """The person's own rights count, and the right that is missing is named."""
    cluster.barred[f"{RUNTIMES}/torch"] = Refuse(403)

    said = await cluster.say("submit", "-f", write(a_train_job()), "-n", "team")

    assert said.code == 2
    assert f"GET {RUNTIMES}/torch: 403" in said.err


def test_what_is_not_read():
    """Without a cluster there is no runtime; the words of an earlier Trainer are not taken for patches."""
    job = a_train_job()
    earlier = {**job, FOUND: a_runtime(), "spec": {**job["spec"], "podTemplateOverrides": [{}]}}

    for thing, named in ((job, "Leave out --snapshot"), (earlier, "Use spec.runtimePatches")):
        with pytest.raises(SettingsError, match=named):
            templates(thing, "team")
