"""The kinds of operators: which pods they make, what makes those one gang, and what cannot be one."""

import pytest

from scheduler.cli.manifest_pods import templates
from scheduler.errors import SettingsError
from tests.cli.support import speaking
from tests.cli.support.manifests import OURS
from tests.cli.support.operators import KINDS, a_leader_worker_set, a_ray_cluster, a_ray_job, a_template


@pytest.fixture(autouse=True)
def _operators(monkeypatch):
    monkeypatch.setattr(speaking, "DISCOVERY", KINDS)


def made(thing):
    """By template: how many pods, and how many of them are made before others are ready."""
    found = templates(thing, "team")
    names = {own.name for own in found}
    return {own.name: (own.count, own.made_first(names)) for own in found}


PODS = {
    "a cluster": (a_ray_cluster(), {"ray-head": (1, 1), "ray-gpu": (3, 3)}),
    "hosts": (a_ray_cluster(workers={"numOfHosts": 2}), {"ray-head": (1, 1), "ray-gpu": (6, 6)}),
    "no replicas": (a_ray_cluster(workers={"replicas": None}), {"ray-head": (1, 1), "ray-gpu": (0, 0)}),
    "bounds": (
        a_ray_cluster(workers={"replicas": 9, "minReplicas": 1, "maxReplicas": 4}),
        {"ray-head": (1, 1), "ray-gpu": (4, 4)},
    ),
    "at least": (a_ray_cluster(workers={"minReplicas": 5}), {"ray-head": (1, 1), "ray-gpu": (5, 5)}),
    "an autoscaler": (
        a_ray_cluster(workers={"minReplicas": 1}, enableInTreeAutoscaling=True),
        {"ray-head": (1, 1), "ray-gpu": (1, 1), "ray-gpu-scaled": (2, 0)},
    ),
    "a job": (a_ray_job(), {"job-head": (1, 1), "job-gpu": (3, 3)}),
    "a job and its submitter": (
        a_ray_job(submitter=a_template()),
        {"job-head": (1, 1), "job-gpu": (3, 3), "job-submitter": (1, 0)},
    ),
    "a submitter that is not made": (
        a_ray_job(submitter=a_template(), mode="HTTPMode"),
        {"job-head": (1, 1), "job-gpu": (3, 3)},
    ),
    "a submitter of kube-scheduler's": (
        a_ray_job(submitter={"spec": {"containers": []}}),
        {"job-head": (1, 1), "job-gpu": (3, 3)},
    ),
    "a leader first": (
        a_leader_worker_set(gang="serve", quorum=4, startupPolicy="LeaderReady"),
        {"serve": (1, 1), "serve-0": (3, 0)},
    ),
    "a leader alone": (a_leader_worker_set(size=1), {"serve": (1, 1), "serve-0": (0, 0)}),
}


@pytest.mark.parametrize("case", PODS)
def test_how_many_pods_are_made(case):
    """As many as the operator makes of these fields, and those that come later are known."""
    thing, expected = PODS[case]

    assert made(thing) == expected


def test_the_pods_of_a_leader_worker_set_have_the_names_that_it_gives_them():
    """The leader's is the group's, and workers are counted from one."""
    found = templates(a_leader_worker_set(replicas=2, size=3), "team")

    names = sorted(name for own in found for name in own.names())
    assert names == ["serve-0", "serve-0-1", "serve-0-2", "serve-1", "serve-1-1", "serve-1-2"]


def test_a_template_for_leaders_is_theirs():
    """Workers have the other; without it all have the same."""
    thing = a_leader_worker_set()
    thing["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = a_template(gpus=0)

    leader, worker = templates(thing, "team")

    assert leader.pod["spec"] == a_template(gpus=0)["spec"]
    assert worker.pod["spec"] == a_template()["spec"]


def test_labels_of_a_ray_group_are_labels_of_its_pods():
    """KubeRay puts them on the pods, above those of the template."""
    workers = {"labels": {OURS + "gang": "ray"}}

    head, worker = templates(a_ray_cluster(workers=workers), "team")

    assert worker.said("labels") == {OURS + "gang": "ray"}
    assert head.said("labels") == {}


GANGS = {
    "a cluster": (a_ray_cluster(gang="ray", quorum=4), 4),
    "a job": (a_ray_job(gang="ray", quorum=4), 4),
    "an autoscaler above its least": (
        a_ray_cluster(gang="ray", quorum=2, workers={"minReplicas": 1}, enableInTreeAutoscaling=True),
        4,
    ),
    "a group": (a_leader_worker_set(gang="serve", quorum=4), 4),
}


@pytest.mark.parametrize("case", GANGS)
async def test_they_are_submitted_as_gangs(cluster, write, case):
    """Head and workers are one gang, a group is one; all is applied as written, without an error."""
    thing, pods = GANGS[case]

    foretold = await cluster.say_offline("simulate", "-f", write(thing), "-n", "team", "-o", "json")
    applied = await cluster.say("submit", "-f", write(thing), "-n", "team")

    assert (foretold.code, [(own["answer"], own["pods"]) for own in foretold.json]) == (
        0,
        [("starts now", pods)],
    )
    assert (applied.code, "error:" in applied.err) == (0, False), applied.err
    assert [sent for *_, sent in cluster.patches] == [thing]


REFUSED = {
    "an autoscaler": (
        a_ray_cluster(gang="ray", quorum=4, workers={"minReplicas": 1}, enableInTreeAutoscaling=True),
        "RayCluster/ray: spec.enableInTreeAutoscaling: 'true': set minReplicas of group gpu to 3, or",
    ),
    "a submitter": (
        a_ray_job(gang="ray", quorum=5, submitter=a_template(gang="ray", quorum=5)),
        "RayJob/job: spec.submissionMode: 'K8sJobMode': remove the gang's label from spec.submitterPodTemplate",
    ),
    "a leader first": (
        a_leader_worker_set(gang="serve", quorum=4, startupPolicy="LeaderReady"),
        "LeaderWorkerSet/serve: spec.startupPolicy: 'LeaderReady': write LeaderCreated",
    ),
    "an exclusive topology": (
        a_leader_worker_set(
            gang="serve", quorum=4, said={"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
        ),
        "metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]: 'rack': remove it",
    ),
    "one gang for all groups": (
        a_leader_worker_set(gang="serve", quorum=4, replicas=2),
        "LeaderWorkerSet/serve: spec.replicas = 2: must be 1, because the templates name one gang",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_be_one_gang_is_refused(cluster, write, case):
    """Nothing is applied, and the line to drop is named."""
    thing, named = REFUSED[case]

    said = await cluster.say("submit", "-f", write(thing), "-n", "team")

    assert (said.code, cluster.patches) == (2, [])
    assert named in said.err


LINES = {
    "a cluster": (
        a_ray_cluster(),
        (
            "RayCluster/ray: its 4 pods are placed one by one. To make them a gang, set under "
            "spec.headGroupSpec.template.metadata, spec.workerGroupSpecs[gpu].template.metadata the label "
            'gangwright.io/gang: ray and the annotation gangwright.io/min-members: "4"'
        ),
    ),
    "a group": (
        a_leader_worker_set(),
        (
            "LeaderWorkerSet/serve: each group of 4 pods is a gang only if LWS runs with "
            "gangSchedulingManagement.schedulerProvider: volcano; otherwise set the label gangwright.io/gang: serve and the "
            'annotations gangwright.io/min-members: "4" and gangwright.io/members: "4" in its templates'
        ),
    ),
}


@pytest.mark.parametrize("case", LINES)
async def test_the_lines_that_make_a_gang_are_said(cluster, write, case):
    """Where to write them, and the lines themselves; without them it is applied as it is."""
    thing, lines = LINES[case]

    said = await cluster.say("submit", "-f", write(thing), "-n", "team")

    assert (said.code, f"warning: {lines}" in said.err.splitlines()) == (0, True), said.err


async def test_groups_that_volcanos_integration_names_are_gangs(cluster, write):
    """Each group is asked about as a gang of its own, and `--wait` does not wait for a name that is not known."""
    place = write(a_leader_worker_set(replicas=2))

    foretold = await cluster.say_offline("simulate", "-f", place, "-n", "team", "-o", "json")
    applied = await cluster.say("submit", "-f", place, "-n", "team", "--wait")

    assert [(own["gang"], own["answer"], own["pods"]) for own in foretold.json] == [
        ("serve-0", "starts now", 4),
        ("serve-1", "waits", 4),
    ]
    assert (applied.code, "--wait ignores" in applied.err) == (0, True)


def test_more_pods_than_any_cluster_has():
    """A number of groups that would take minutes to write down is refused at once."""
    with pytest.raises(SettingsError, match="must create at most"):
        templates(a_leader_worker_set(replicas=1_000_000), "team")


def test_a_group_has_a_leader():
    """A group of no pod is refused, and the field named."""
    with pytest.raises(SettingsError, match="size = 0: must be 1 or more"):
        templates(a_leader_worker_set(size=0), "team")
