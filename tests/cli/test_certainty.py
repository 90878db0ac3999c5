"""What a dry run may say: yes only where all that decides is modelled, and of a gang that is there what it is."""

import asyncio
from copy import deepcopy

import pytest

from scheduler.cli.submission import PRIORITIES
from tests.cli.support.manifests import OURS, a_job
from tests.cli.support.speaking import DISCOVERY, TEAM

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def claims(name):
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


# ── what the planner does not model ─────────────────────────────────────────────────────────────────────

UNMODELLED = {
    "device claims": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "new"}]},
        "spec.resourceClaims: a claim template does not exist yet",
    ),
    "a claim that is not there": (claims("new"), "spec.volumes: a claim does not exist yet"),
    "a claim that is not bound": (claims("unbound"), "spec.volumes: a claim is not bound yet"),
    "a disk": (
        {"volumes": [{"name": "data", "gcePersistentDisk": {"pdName": "d"}}]},
        "spec.volumes: a disk is named directly",
    ),
    "a comparison": (
        {"tolerations": [{"key": "memory", "operator": "Gt", "value": "1"}]},
        "spec.tolerations: an operator other than Equal and Exists",
    ),
}


@pytest.mark.parametrize("case", UNMODELLED)
async def test_it_cannot_be_told(cluster, write, case):
    """There is room, and kube-scheduler decides by a field that the planner does not model: exit code 2, and the field.
    Nothing is said of seats.
    """
    spec, field = UNMODELLED[case]
    cluster.put("unbound", CLAIMS, "team", status={"phase": "Pending"})
    words = ("simulate", "-f", write(a_job(spec=spec)), "-n", "team")

    table, told = await cluster.say_offline(*words), await cluster.say_offline(*words, "-o", "json")

    (row,), (own,) = table.rows, told.json
    assert (table.code, row["ANSWER"], row["REASON"]) == (2, "cannot tell", "UnsupportedField")
    assert row["MESSAGE"].startswith(f"cannot tell: {field}: ")
    assert (told.code, own["answer"], own["starts"], own["seats"]) == (2, "cannot tell", False, {})


async def test_it_cannot_be_told_who_would_leave(cluster, write):
    """Room that others would make is no more certain than room that is there."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        cluster.pod(f"on-{node}", gpus=8, node=node)
    cluster.put("urgent", PRIORITIES, "", value=1000)
    spec = {"priorityClassName": "urgent", **UNMODELLED["a disk"][0]}

    said = await cluster.say_offline("simulate", "-f", write(a_job(spec=spec)), "-n", "team", "-o", "json")

    assert (said.code, said.json[0]["answer"], said.json[0]["victims"]) == (2, "cannot tell", [])


async def test_what_waits_for_room_alone_waits(cluster, write):
    """Even what is modelled says no: exit code 1, and the figures. It stays so beside a gang that cannot be told."""
    spec, _ = UNMODELLED["a disk"]
    large, small = a_job("large", 5, gang="large", spec=spec), a_job("small", 1, gang="small", spec=spec)

    one = await cluster.say_offline("simulate", "-f", write(large), "-n", "team")
    both = await cluster.say_offline("simulate", "-f", write(large, small), "-n", "team")

    assert (one.code, one.rows[0]["ANSWER"]) == (1, "waits")
    assert "needs 5 × 8" in one.rows[0]["MESSAGE"]
    assert (both.code, [row["ANSWER"] for row in both.rows]) == (1, ["waits", "cannot tell"])


async def test_a_gang_of_a_snapshot_cannot_be_told(cluster, tmp_path):
    """Pods that wait in a snapshot ask for the same, and get the same answer."""
    cluster.pod("waits")["spec"] |= UNMODELLED["a disk"][0]
    taken = tmp_path / "s.json"
    taken.write_text((await cluster.say("snapshot")).out)

    said = await cluster.say("simulate", "--snapshot", str(taken))

    assert (said.code, said.rows[0]["ANSWER"]) == (2, "cannot tell")


async def test_a_claim_that_is_bound_is_modelled(cluster, write):
    """The nodes that reach the volume are known, so there is a yes, and `submit` warns of nothing."""
    cluster.put("bound", CLAIMS, "team", spec={"volumeName": "disk"}, status={"phase": "Bound"})
    cluster.put("disk", VOLUMES, "")
    job = write(a_job(spec=claims("bound")))

    foretold = await cluster.say_offline("simulate", "-f", job, "-n", "team")
    applied = await cluster.say("submit", "-f", job, "-n", "team")

    assert (foretold.code, foretold.rows[0]["ANSWER"]) == (0, "starts now")
    assert (applied.code, "spec.volumes" in applied.err) == (0, False)


def a_set(**spec):
    template = a_job(size=2)["spec"]["template"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "train"},
        "spec": {"replicas": 2, "podManagementPolicy": "Parallel", "template": template, **spec},
    }


async def test_the_claims_of_a_set_count(cluster, write):
    """Every pod of a StatefulSet gets a claim of each claim template, which is not there before the pod is."""
    thing = a_set(volumeClaimTemplates=[{"metadata": {"name": "data"}}])

    said = await cluster.say_offline("simulate", "-f", write(thing), "-n", "team")

    assert said.code == 2
    assert "spec.volumes: a claim does not exist yet" in said.out


@pytest.mark.parametrize("case", UNMODELLED)
async def test_submit_warns_of_it(cluster, write, case):
    """It is applied all the same: exit code 0, and a warning that names the field."""
    spec, field = UNMODELLED[case]
    cluster.put("unbound", CLAIMS, "team", status={"phase": "Pending"})

    said = await cluster.say("submit", "-f", write(a_job(spec=spec)), "-n", "team")

    assert (said.code, said.out) == (0, "job/train applied\n")
    assert f"warning: {field}: the planner does not model this" in said.err


async def test_submit_waits_for_what_happens(cluster, write):
    """With --wait the exit code tells what became of the gang, not what could be told before."""
    spec, field = UNMODELLED["a disk"]
    words = ("submit", "-f", write(a_job(spec=spec)), "-n", "team", "--wait")
    task = asyncio.create_task(cluster.say(*words))
    while not any(call.path == TEAM for call in cluster.calls):
        await asyncio.sleep(0.01)
    cluster.gang("train", 2, gpus=8, node="r0-n0")

    said = await task

    assert (said.code, field in said.err) == (0, True)
    assert "team/train: running" in said.out


# ── members that are made only when others are ready ────────────────────────────────────────────────────


def a_part(name, *, gang="train", needs="3", size="", **words):
    template = a_job(size=1, gang=gang, quorum=needs)["spec"]["template"]
    if size:
        template["metadata"]["annotations"][OURS + "members"] = size
    return {"name": name, "template": {"spec": {"parallelism": 1, "template": template}}, **words}


def a_job_set(*parts, **spec):
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": list(parts), **spec},
    }


def an_mpi_job(policy, *, launcher="train"):
    worker = a_part("", needs="3" if launcher else "2", size="3")["template"]["spec"]["template"]
    first = deepcopy(worker)
    if not launcher:
        first["metadata"] = {}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "mpi"},
        "spec": {
            "launcherCreationPolicy": policy,
            "mpiReplicaSpecs": {
                "Launcher": {"template": first},
                "Worker": {"replicas": 2, "template": worker},
            },
        },
    }


IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def needs(*names):
    return [{"name": name, "status": "Ready"} for name in names]


WAITS_FOR_ITSELF = {
    "in order": (
        a_job_set(a_part("driver", size="3"), a_part("worker", size="3", replicas=2), **IN_ORDER),
        "JobSet/set: spec.startupPolicy.startupPolicyOrder: 'InOrder': write AnyOrder, or give each replicated Job its own gang",
    ),
    "dependsOn": (
        a_job_set(
            a_part("driver", size="3"), a_part("worker", size="3", replicas=2, dependsOn=needs("driver"))
        ),
        "JobSet/set: spec.replicatedJobs[worker].dependsOn: 'driver': leave it out, or give each replicated Job its own gang",
    ),
    "dependsOn by way of another": (
        a_job_set(
            a_part("driver", needs="2", size="2"),
            a_part("data", gang="", dependsOn=needs("driver")),
            a_part("worker", needs="2", size="2", dependsOn=needs("data")),
        ),
        "JobSet/set: spec.replicatedJobs[worker].dependsOn: 'data': ",
    ),
    "a launcher": (
        an_mpi_job("WaitForWorkersReady"),
        "MPIJob/mpi: spec.launcherCreationPolicy: 'WaitForWorkersReady': write AtStartup, or remove the gang's label from",
    ),
    "one by one": (
        a_set(podManagementPolicy="OrderedReady"),
        "StatefulSet/train: spec.podManagementPolicy: 'OrderedReady': must be Parallel",
    ),
}


@pytest.mark.parametrize("case", WAITS_FOR_ITSELF)
async def test_a_gang_that_waits_for_itself_does_not_start(cluster, write, case):
    """Members that are made only when others are ready never come, for these wait for them: exit code 1, whatever room
    there is, with field, value and remedy.
    """
    thing, named = WAITS_FOR_ITSELF[case]

    said = await cluster.say_offline("simulate", "-f", write(thing), "-n", "team", "-o", "json")

    own = next(own for own in said.json if own["gang"] == "train")
    assert (said.code, own["answer"], own["reason"], own["starts"]) == (1, "waits", "MissingMembers", False)
    assert named in own["message"]
    assert named in said.err


async def test_a_gang_that_waits_for_itself_waits_whatever_cannot_be_told(cluster, write):
    """That it waits is certain, so it is the answer."""
    thing = a_set(podManagementPolicy="OrderedReady", volumeClaimTemplates=[{"metadata": {"name": "data"}}])

    said = await cluster.say_offline("simulate", "-f", write(thing), "-n", "team")

    assert (said.code, said.rows[0]["ANSWER"], said.rows[0]["REASON"]) == (1, "waits", "MissingMembers")


@pytest.mark.parametrize("case", WAITS_FOR_ITSELF)
async def test_submit_refuses_a_gang_that_waits_for_itself(cluster, write, monkeypatch, case):
    """Nothing is applied, and the error names field, value and remedy: it would wait whatever room there is."""
    thing, named = WAITS_FOR_ITSELF[case]
    kind = thing["kind"]
    monkeypatch.setitem(DISCOVERY, f"/apis/{thing['apiVersion']}", [(kind, f"{kind.lower()}s")])

    said = await cluster.say("submit", "-f", write(thing), "-n", "team")

    assert (said.code, cluster.patches) == (2, [])
    assert f"error: {named}" in said.err


async def test_controllers_whose_pods_are_no_gang_together(cluster, write):
    """The service takes one controller's pods at a time unless roles, a size or a group join them: with the wrong lines
    the Jobs of a JobSet would wait for each other, and both commands say so.
    """
    job_set = write(a_job_set(a_part("driver"), a_part("worker", replicas=2)))

    foretold = await cluster.say_offline("simulate", "-f", job_set, "-n", "team")
    applied = await cluster.say("submit", "-f", job_set, "-n", "team")

    assert (foretold.code, foretold.rows[0]["ANSWER"]) == (1, "waits")
    assert (applied.code, cluster.patches) == (2, [])
    assert 'Add the annotation gangwright.io/members: "3" to every template, or use roles' in applied.err


STARTS = {
    "any order": a_job_set(a_part("driver", size="3"), a_part("worker", size="3", replicas=2)),
    "a gang each": a_job_set(
        a_part("driver", gang="first", needs="1"),
        a_part("worker", size="2", replicas=2, needs="2"),
        **IN_ORDER,
    ),
    "no label on the first": a_job_set(
        a_part("driver", gang=""),
        a_part("worker", size="2", replicas=2, needs="2", dependsOn=needs("driver")),
    ),
    "a quorum of the first alone": a_job_set(
        a_part("driver", needs="1"), a_part("worker", replicas=2, needs="1"), **IN_ORDER
    ),
    "a launcher at once": an_mpi_job("AtStartup"),
    "a launcher that is no member": an_mpi_job("WaitForWorkersReady", launcher=""),
}


@pytest.mark.parametrize("case", STARTS)
async def test_a_gang_whose_quorum_is_made_first_starts(cluster, write, case):
    """An order among Jobs that keeps no quorum waiting is no matter."""
    said = await cluster.say_offline("simulate", "-f", write(STARTS[case]), "-n", "team", "-o", "json")

    assert (said.code, {own["answer"] for own in said.json}) == (0, {"starts now"}), said


# ── gangs that are there already ────────────────────────────────────────────────────────────────────────


async def test_what_runs_already_is_said_to_run(cluster, write):
    """Exit code 0, and where it runs: it is not asked for a second time."""
    cluster.gang("train", 2, gpus=8, node="r0-n0")

    said = await cluster.say_offline("simulate", "-f", write(a_job()), "-n", "team", "-o", "json")

    (own,) = said.json
    assert (said.code, own["answer"], own["reason"], own["pods"]) == (0, "runs", "Bound", 2)
    assert own["seats"] == {"train-0": "r0-n0", "train-1": "r0-n0"}
    assert own["message"].startswith("a gang with this name already exists and is running")


@pytest.mark.parametrize("said", [{}, {OURS + "strategy": "pack"}], ids=["plain", "with a wish"])
async def test_a_pod_that_runs_already_is_said_to_run(cluster, write, said):
    """A pod alone goes by its own name, whatever it says of its place."""
    cluster.pod("solo", gpus=8, node="r0-n0", annotations=said)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "solo", "annotations": said}}
    pod["spec"] = a_job()["spec"]["template"]["spec"]

    said = await cluster.say_offline("simulate", "-f", write(pod), "-n", "team")

    assert (said.code, said.rows[0]["GANG"], said.rows[0]["ANSWER"]) == (0, "solo", "runs")


async def test_what_waits_already_is_said_to_wait(cluster, write):
    """Exit code 1, its place in the queue, and its reason with the figures of one gang, not of two."""
    cluster.gang("older", 4, gpus=8)
    cluster.gang("train", 3, gpus=8, created="2026-01-01T00:01:00Z")

    said = await cluster.say_offline("simulate", "-f", write(a_job(size=3)), "-n", "team")

    (row,) = said.rows
    assert (said.code, row["ANSWER"], row["PODS"]) == (1, "waits", "3")
    assert "already exists and is waiting, place 2 in the queue: " in row["MESSAGE"]
    assert "needs 3 × 8" in row["MESSAGE"]


async def test_what_is_partly_bound_is_said_to_be_so(cluster, write):
    """A gang of which some are bound waits for the rest: it does not run, and exit code 1 says so."""
    cluster.pod("train-0", gang="train", quorum=2, gpus=8, node="r0-n0")
    cluster.pod("train-1", gang="train", quorum=2, gpus=64)

    said = await cluster.say_offline("simulate", "-f", write(a_job()), "-n", "team")

    assert (said.code, said.rows[0]["ANSWER"]) == (1, "waits")
    assert "already exists and is waiting" in said.out


async def test_only_what_is_not_there_is_asked_about(cluster, write):
    """Of four members three are there: one would come, and with it the gang would start."""
    for number in range(3):
        cluster.pod(f"train-{number}", gang="train", quorum=4, gpus=8)

    said = await cluster.say_offline("simulate", "-f", write(a_job(size=4)), "-n", "team", "-o", "json")

    (own,) = said.json
    assert (said.code, own["answer"], own["pods"], len(own["seats"])) == (0, "starts now", 4, 4)


async def test_a_gang_that_has_ended_is_not_there(cluster, write):
    """Pods that have ended are of an earlier gang: the new one is asked about."""
    cluster.gang("train", 2, gpus=8, node="r0-n0")
    for number in range(2):
        cluster.objects[TEAM]["team", f"train-{number}"]["status"]["phase"] = "Succeeded"

    said = await cluster.say_offline("simulate", "-f", write(a_job()), "-n", "team")

    assert (said.code, said.rows[0]["ANSWER"]) == (0, "starts now")


# ── nothing was done ────────────────────────────────────────────────────────────────────────────────────


async def test_victims_would_be_preempted(cluster, write):
    """A dry run asks nothing of the pods in its way, and does not speak as if it had; nor does `explain` of a gang of
    which it only works out what would be done.
    """
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        cluster.pod(f"on-{node}", gpus=8, node=node)
    cluster.put("urgent", PRIORITIES, "", value=1000)
    job = write(a_job(size=1, spec={"priorityClassName": "urgent"}))

    foretold = await cluster.say_offline("simulate", "-f", job, "-n", "team")
    cluster.gang("urgent", 1, gpus=8, priority=1000)
    explained = await cluster.say_offline("explain", "team/urgent")

    would = "the gang would preempt 1 pod and start when all of them have terminated"
    assert would in foretold.out
    assert would in explained.out
    assert "give way to it" not in foretold.out + explained.out
