"""`gangwright submit`: what is wrong is said before anything is applied, and what is applied is what was written."""

import asyncio
import json

import pytest

from tests.cli.support.manifests import OURS, a_job
from tests.cli.support.speaking import JOBS, TEAM
from tests.kube.support.api_server import Refuse


async def test_what_is_written_is_applied(cluster, write):
    """Server-side apply, under a name of our own, of the very manifest."""
    job = a_job()

    said = await cluster.say("submit", "-f", write(job), "-n", "team")

    assert (said.code, said.out) == (0, "job/train applied\n")
    ((path, query, kind, sent),) = cluster.patches
    assert path == f"{JOBS}/train"
    assert query == {"fieldManager": "gangwright-submit"}
    assert (kind, sent) == ("application/apply-patch+yaml", job)


async def test_flags_become_parameters(cluster, write):
    """`--dry-run` keeps nothing, `--force-conflicts` takes fields over."""
    said = await cluster.say("submit", "-f", write(a_job()), "-n", "team", "--dry-run", "--force-conflicts")

    assert said.out == "job/train would be applied\n"
    assert cluster.patches[0][1] == {"fieldManager": "gangwright-submit", "dryRun": "All", "force": "true"}


WRONG = {
    "another scheduler": (a_job(spec={"schedulerName": "default-scheduler"}), "must be gangwright"),
    "no quorum": (a_job(quorum=""), OURS + "min-members"),
    "too few pods": (a_job(size=2, quorum=3), "these manifests create 2"),
    "an unknown level": (a_job(), "configured levels"),
    "no pods at all": ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}, "no pods found"),
}
WRONG["a fraction of a GPU"] = (
    a_job(),
    "gpu-memory: '2000': unsupported: a fraction of a GPU; request whole GPUs",
)
WRONG["a fraction of a GPU"][0]["spec"]["template"]["metadata"]["annotations"]["gpu-memory"] = "2000"
WRONG["a plan"] = (a_job(), "Job/train: gangwright.io/plan: is written by Gangwright alone")
WRONG["a plan"][0]["spec"]["template"]["metadata"]["annotations"][OURS + "plan"] = "x"
WRONG["an unknown level"][0]["spec"]["template"]["metadata"]["annotations"][OURS + "level"] = "galaxy"


@pytest.mark.parametrize("case", WRONG)
async def test_nothing_is_applied_while_something_is_wrong(cluster, write, case):
    """The person is told what to mend: exit code 2, and nothing is sent."""
    thing, named = WRONG[case]

    said = await cluster.say("submit", "-f", write(thing), "-n", "team")

    assert said.code == 2
    assert named in said.err
    assert "nothing was applied" in said.err
    assert cluster.patches == []


@pytest.mark.parametrize(
    ("place", "value", "remedy"),
    [
        ("annotations", 2, 'must be a string. Write it in quotes: "2"'),
        ("labels", True, 'must be a string. Write it in quotes: "true"'),
        ("annotations", None, "must be a string in quotes"),
    ],
)
async def test_a_value_without_quotes_is_named(cluster, write, place, value, remedy):
    """YAML reads a bare number as a number, which no label or annotation is: key and value are said, and the cure."""
    job = a_job()
    job["spec"]["template"]["metadata"][place][OURS + "min-members"] = value

    said = await cluster.say("submit", "-f", write(job), "-n", "team")

    assert (said.code, cluster.patches) == (2, [])
    assert f"Job/train: {place}: gangwright.io/min-members = {value!r}: {remedy}" in said.err


NOTED = {
    "pods one by one": (
        a_job(gang=""),
        (
            "Job/train: its 2 pods are placed one by one. To make them a gang, set under spec.template.metadata the label "
            'gangwright.io/gang: train and the annotation gangwright.io/min-members: "2"'
        ),
    ),
    "a Job that counts lost seats": (
        a_job(podReplacementPolicy="TerminatingOrFailed"),
        "podReplacementPolicy: Failed",
    ),
    "a deadline": (a_job(activeDeadlineSeconds=60), "activeDeadlineSeconds"),
}


@pytest.mark.parametrize("case", NOTED)
async def test_what_could_be_better_is_noted(cluster, write, case):
    """What works, but not as well as it could, is applied and noted."""
    job, named = NOTED[case]

    said = await cluster.say("submit", "-f", write(job), "-n", "team")

    assert (said.code, named in said.err) == (0, True)


@pytest.mark.parametrize("quorum", ["-2", "four"])
async def test_a_gang_with_a_wrong_word_is_not_told_to_be_one(cluster, write, quorum):
    """Pods that name a gang and say something wrong of it are told what is wrong, and not to name a gang."""
    said = await cluster.say("submit", "-f", write(a_job(quorum=quorum)), "-n", "team")

    assert (said.code, "one by one" in said.err) == (2, False)


async def test_a_key_in_the_wrong_place_is_named_with_the_right_one(cluster, write):
    """A label that should be an annotation is a warning, and what is missing for it an error: each is marked."""
    job = a_job()
    meta = job["spec"]["template"]["metadata"]
    meta["labels"] |= meta["annotations"]
    meta["annotations"] = {}

    said = await cluster.say("submit", "-f", write(job), "-n", "team")

    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    key = "gangwright.io/min-members"
    assert (said.code, [key in line for line in errors]) == (2, [True])
    assert f"warning: Job/train: label {key} is ignored: set it as an annotation" in said.err.splitlines()


async def test_a_misspelt_key_is_noted(cluster, write):
    """A key that nobody reads is said, with the one that was meant; the job is applied all the same."""
    job = a_job()
    job["spec"]["template"]["metadata"]["annotations"][OURS + "stratgy"] = "spread"

    said = await cluster.say("submit", "-f", write(job), "-n", "team")

    assert said.code == 0
    assert "gangwright.io/stratgy: 'spread': use the annotation gangwright.io/strategy" in said.err


async def test_a_priority_class_of_the_same_file(cluster, write):
    """A class that the manifests bring themselves is there when their pods are made."""
    own = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "core"},
        "value": 7,
    }
    job = a_job(spec={"priorityClassName": "core"})

    said = await cluster.say_offline("simulate", "-f", write(own, job), "-n", "team")

    assert said.code == 0, said.err


async def test_pods_that_would_be_refused(cluster, write):
    """The API server is asked about a pod of the template before the Job is applied, and what it says is noted."""
    cluster.against = _told(403, 'pods "train-" is forbidden: pod rejected: RuntimeClass "gvisor" not found')

    said = await cluster.say("submit", "-f", write(a_job()), "-n", "team")

    assert (said.code, len(cluster.patches)) == (0, 1)
    assert "Job/train: its pods would be rejected" in said.err
    assert 'RuntimeClass "gvisor" not found' in said.err
    (tried,) = cluster.tried
    assert tried["spec"] == a_job()["spec"]["template"]["spec"]
    assert tried["metadata"]["labels"] == {OURS + "gang": "train"}


@pytest.mark.parametrize("user", ["ann", "arn:aws:sts::123456789012:assumed-role/" + "x" * 100])
async def test_who_may_not_make_pods_is_told_nothing(cluster, write, user):
    """The right to make Jobs is enough: that the person may not make pods says nothing of the Job's, however long his
    name, and whatever the cluster says beside it.
    """
    lacks = f'pods is forbidden: User "{user}" cannot create resource "pods" in API group "" in the namespace "team"'
    cluster.against = _told(403, f"{lacks}: {'no role of this account allows it; ' * 5}")

    said = await cluster.say("submit", "-f", write(a_job()), "-n", "team")

    assert (said.code, len(cluster.tried)) == (0, 1)
    assert "would be refused" not in said.err


async def test_pods_are_not_tried_where_the_manifests_bring_what_they_need(cluster, write):
    """Beside an object that makes no pods nothing is known of them yet."""
    own = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}

    await cluster.say("submit", "-f", write(own, a_job()), "-n", "team")

    assert cluster.tried == []


async def test_pods_are_tried_with_the_volumes_that_their_set_gives_them(cluster, write):
    """A StatefulSet's template mounts what only its claim templates name: the API server would refuse it as it is."""
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "tmp", "mountPath": "/tmp"}]
    spec = {
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        "containers": [{"name": "main", "volumeMounts": mounts}],
    }
    thing = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "train"},
        "spec": {
            "replicas": 2,
            "podManagementPolicy": "Parallel",
            "template": a_job(spec=spec)["spec"]["template"],
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    }

    said = await cluster.say("submit", "-f", write(thing), "-n", "team")

    assert said.code == 0, said.err
    (tried,) = cluster.tried
    assert tried["spec"]["volumes"] == [
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-train-0"}},
    ]


@pytest.mark.parametrize("code", [409, 429, 500, 504])
async def test_what_cannot_be_asked_keeps_nothing_from_being_applied(cluster, write, code):
    """A webhook for pods that does not answer has nothing to do with the Job: what is not known is said, once."""
    cluster.against = _told(code, "failed calling webhook")
    first, second = a_job("one", gang="one"), a_job("two", gang="two")

    said = await cluster.say("submit", "-f", write(first, second), "-n", "team")

    assert (said.code, len(cluster.patches)) == (0, 2)
    assert said.err.count("unknown whether its pods would be rejected") == 1
    assert "failed calling webhook" in said.err


def _told(code, message):
    return Refuse(code, body=json.dumps({"kind": "Status", "code": code, "message": message}).encode())


async def test_what_is_immutable(cluster, write):
    """The API server quotes a whole template before it says what is wrong: the end is shown, and what to do."""
    quoted = "Invalid value: {" + "x" * 5000 + "}: field is immutable"
    cluster.refusals.append(_told(422, f"Job is invalid: spec.template: {quoted}"))
    cluster.unknown.clear()

    said = await _after_reading(cluster, write(a_job()))

    assert said.code == 2
    assert "field is immutable" in said.err
    assert "delete it first" in said.err


async def test_an_unknown_kind_stops_all(cluster, write):
    """A kind that the cluster lacks is found before the first object is applied."""
    other = {"apiVersion": "acme.com/v1", "kind": "Rocket", "metadata": {"name": "x"}}

    said = await cluster.say("submit", "-f", write(a_job(), other), "-n", "team")

    assert said.code == 2
    assert "acme.com/v1 Rocket" in said.err
    assert cluster.patches == []


async def test_two_namespaces(cluster, write):
    """A manifest's own namespace and another one with -n are a wrong question."""
    job = a_job()
    job["metadata"]["namespace"] = "mine"

    said = await cluster.say("submit", "-f", write(job), "-n", "team")

    assert (said.code, "mine" in said.err) == (2, True)


async def test_somebody_elses_fields(cluster, write):
    """A conflict says how it can be solved."""
    cluster.refusals.append(Refuse(409))
    cluster.unknown.clear()

    said = await _after_reading(cluster, write(a_job()))

    assert said.code == 2
    assert "--force-conflicts" in said.err


async def _after_reading(cluster, place):
    """The next refusal is for the PATCH: reads before it are answered."""
    refusals, cluster.refusals = cluster.refusals, type(cluster.refusals)()
    first = cluster._patch

    async def patch(request):
        cluster.refusals = refusals
        return await first(request)

    cluster._patch = patch
    return await cluster.say("submit", "-f", place, "-n", "team")


async def test_waiting_ends_when_all_are_bound(cluster, write):
    """`--wait` tells what changes, and ends with 0 once every gang has its nodes."""
    task = asyncio.create_task(cluster.say("submit", "-f", write(a_job()), "-n", "team", "--wait"))
    while not any(call.path == TEAM for call in cluster.calls):
        await asyncio.sleep(0.01)
    cluster.gang("train", 2, gpus=8, node="r0-n0")

    said = await task

    assert said.code == 0
    assert said.out.splitlines() == ["job/train applied", "team/train: no pods yet", "team/train: running"]


async def test_waiting_lists_once(cluster, write):
    """`--wait` costs the API server one list and one watch of the namespace's pods, however often they change."""
    cluster.gang("train", 2, gpus=8)
    task = asyncio.create_task(cluster.say("submit", "-f", write(a_job()), "-n", "team", "--wait"))
    while not any(call.path == TEAM and call.watches for call in cluster.calls):
        await asyncio.sleep(0.01)
    for number in range(2):
        cluster.changed(f"train-{number}")
        cluster.pod(f"train-{number}", gang="train", quorum=2, gpus=8, node="r0-n0")

    said = await task

    assert said.out.splitlines()[-1] == "team/train: running"
    asked = [call.watches for call in cluster.calls if call.path == TEAM]
    assert (asked.count(False), asked.count(True)) == (1, 1)


async def test_waiting_for_a_pod_alone(cluster, write):
    """A pod that is a gang of its own is known by its name, also when it says something of its place."""
    said = {OURS + "strategy": "pack"}
    cluster.pod("solo", gpus=8, node="r0-n0", annotations=said)
    spec = a_job()["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "solo", "annotations": said}, "spec": spec}

    done = await cluster.say("submit", "-f", write(pod), "-n", "team", "--wait", "--timeout", "1s")

    assert (done.code, done.out.splitlines()[-1]) == (0, "team/solo: running")


async def test_waiting_has_an_end(cluster, write):
    """Not bound in time: exit code 1, and where to ask why."""
    cluster.gang("train", 2, gpus=8)

    said = await cluster.say("submit", "-f", write(a_job()), "-n", "team", "--wait", "--timeout", "1s")

    assert said.code == 1
    assert "gangwright explain team/train" in said.err


@pytest.mark.parametrize(("owner", "code"), [("train", 0), ("earlier", 1)])
async def test_waiting_ends_when_a_gang_has_ended(cluster, write, owner, code):
    """A gang that ended between two looks had its nodes; what an earlier one of its name left is not waited for."""
    job = cluster.put("train", JOBS)
    uids = {"train": job["metadata"]["uid"], "earlier": "another"}
    cluster.gang("train", 2, gpus=8, node="r0-n0")
    for pod in cluster.objects[TEAM].values():
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uids[owner]}
        pod["metadata"]["ownerReferences"] = [reference | {"controller": True}]
        pod["status"]["phase"] = "Succeeded"

    said = await cluster.say("submit", "-f", write(a_job()), "-n", "team", "--wait", "--timeout", "1s")

    assert said.code == code
    assert ("team/train: ended" in said.out) == (code == 0)
