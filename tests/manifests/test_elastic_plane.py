"""The elastic master's manifests on the real API server: what it accepts, what it refuses, and by which words."""

import asyncio
import itertools
from copy import deepcopy

import pytest
import yaml

from scheduler.elastic import workers
from scheduler.elastic.job.decode import decode, decode_spec
from scheduler.elastic.job.status import (
    Barred,
    BatchSeen,
    Checkpoint,
    Condition,
    Member,
    Next,
    Phase,
    Resize,
    Round,
    Seat,
    Status,
    WorkerPhase,
)
from scheduler.elastic.job.wire import encode_status
from scheduler.elastic.master import calls
from scheduler.settings_elastic import Confinement
from tests.elastic.master.process import Process
from tests.manifests.conftest import TEAM
from tests.manifests.rendering import MANIFESTS, rendered
from tests.manifests.test_elastic import SAMPLES
from tests.manifests.test_installation import allowed, questions
from tests.plane import ApiError, service_account, where
from tests.plane.errors import CommandError

pytestmark = pytest.mark.plane

MASTER = service_account("gangwright-system", "gangwright-elastic")
JOBS = where("gangwright.io/v1alpha1/elasticjobs", TEAM)
PODS = where("pods", TEAM)
POLICIES = where("networking.k8s.io/v1/networkpolicies", TEAM)
KIT = workers.Kit(image="gangwright:0.1.0", master="https://gangwright-elastic:10273", ca="-")
WORKER = {"name": "worker", "image": "training:1", "command": ["python", "train.py"]}
_number = itertools.count()


@pytest.fixture(scope="module")
def elastic(installed):
    """The plane with the elastic master's manifests on it, and its policies in force."""
    installed.kubectl("apply", "--server-side", "-k", MANIFESTS / "overlays" / "with-elastic")
    installed.kubectl("wait", "--for=condition=Established", "crd/elasticjobs.gangwright.io")
    return installed


@pytest.fixture
async def admin(elastic):
    async with elastic.client() as client:
        yield client


@pytest.fixture
async def master(elastic):
    """The API server as the master's account sees it, from the moment at which its policies count."""
    async with elastic.client(MASTER) as client:
        async with asyncio.timeout(30):
            while not await _refuses(client.request("POST", PODS, body=a_pod(), dryRun="All")):
                await asyncio.sleep(0.05)
        yield client


async def _refuses(call):
    try:
        await call
    except ApiError as error:
        return "elastic master makes" in str(error)
    return False


def template(**spec):
    return {"spec": {"serviceAccountName": "default", "containers": [WORKER]} | spec}


def a_job(**spec):
    return {
        "apiVersion": "gangwright.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": f"job-{next(_number)}", "namespace": TEAM},
        "spec": {"minWorkers": 2, "maxWorkers": 4, "template": template()} | spec,
    }


def a_pod(**spec):
    return {
        "metadata": {"name": f"pod-{next(_number)}"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]} | spec,
    }


async def a_worker(admin, role=workers.CORE, **spec):
    """A job that stands at the API server, and a worker as the master would make it."""
    made = decode(await admin.create(JOBS, a_job(**spec)))
    owner = workers.Owner(made.namespace, made.name, made.uid)
    name = workers.worker_name(made.name, 1, "abcde")
    return owner, workers.manifest(owner, made.spec, workers.Worker(name, 1, role, 0.25), KIT)


# --- installing, samples ---


def test_applied_twice(elastic):
    """Applying everything again, server-side, changes nothing and is refused nothing."""
    for directory in ("elastic", "overlays/with-elastic"):
        said = elastic.kubectl("apply", "--server-side", "-k", MANIFESTS / directory)
        assert len(said.splitlines()) == len(rendered(directory))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda place: place.stem)
def test_samples(elastic, sample):
    """Every sample is accepted as it stands, with strict validation of fields."""
    assert elastic.kubectl("apply", "--dry-run=server", "--validate=strict", "-n", TEAM, "-f", sample)


async def test_the_master_is_admitted(admin):
    """Its Pod passes the restricted standard of its namespace, with the priority that its class gives."""
    template = (await admin.get(where("deployments", "gangwright-system", "gangwright-elastic")))["spec"][
        "template"
    ]
    pod = {
        "metadata": {"name": "as-the-deployment-makes-it", **template["metadata"]},
        "spec": template["spec"],
    }
    made = await admin.request("POST", where("pods", "gangwright-system"), body=pod, dryRun="All")

    assert made["spec"]["priority"] == 1_000_000
    assert "schedulingGates" not in made["spec"]


# --- what is refused, by which words ---


def utility(**parameters):
    return {"sizing": {"policy": "utility", "parameters": parameters}}


BAD = {
    "min above max": (
        {"minWorkers": 5},
        "spec.maxWorkers",
        "maxWorkers = 4: at least minWorkers, which is 5",
    ),
    "min above max, many digits": (
        {"minWorkers": 1203, "maxWorkers": 980},
        "spec.maxWorkers",
        "maxWorkers = 980: at least minWorkers, which is 1203",
    ),
    "no min": ({"minWorkers": None}, "spec.minWorkers", "Required"),
    "min 0": ({"minWorkers": 0}, "spec.minWorkers", "0"),
    "min negative": ({"minWorkers": -3}, "spec.minWorkers", "-3"),
    "max too large": ({"maxWorkers": 10001}, "spec.maxWorkers", "10001"),
    "half a worker": ({"minWorkers": 1.5}, "spec.minWorkers", "integer"),
    "workers negative": ({"workers": -1}, "spec.workers", "-1"),
    "workers too many": ({"workers": 10001}, "spec.workers", "10001"),
    "no template": ({"template": None}, "spec.template", "Required"),
    "a label of ours": (
        {"template": template() | {"metadata": {"labels": {"app": "a", "gangwright.io/surplus": "true"}}}},
        "spec.template.metadata.labels",
        "leave out what begins with gangwright.io/",
    ),
    "an annotation of ours": (
        {"template": template() | {"metadata": {"annotations": {"gangwright.io/seat": "n1 plan"}}}},
        "spec.template.metadata.annotations",
        "leave out what begins with gangwright.io/",
    ),
    "a label that is none": (
        {"template": template() | {"metadata": {"labels": {"app": 3}}}},
        "spec.template.metadata.labels.app",
        "string",
    ),
    "no containers": ({"template": {"spec": {}}}, "spec.template.spec.containers", "Required"),
    "containers empty": (
        {"template": template(containers=[])},
        "spec.template.spec.containers",
        "at least 1",
    ),
    "no command": (
        {"template": template(containers=[{"name": "worker", "image": "training:1"}])},
        "spec.template.spec.containers",
        "containers[0].command: write what trains",
    ),
    "restarts": (
        {"template": template(restartPolicy="Always")},
        "spec.template.spec.restartPolicy",
        "restartPolicy = Always: Never",
    ),
    "another scheduler": (
        {"template": template(schedulerName="default-scheduler")},
        "spec.template.spec.schedulerName",
        "schedulerName = default-scheduler: gangwright",
    ),
    "a node": ({"template": template(nodeName="n1")}, "spec.template.spec.nodeName", "nodeName = n1"),
    "quorum as surplus": (
        {"template": template(priorityClassName="gangwright-surplus")},
        "spec.template.spec.priorityClassName",
        "priorityClassName = gangwright-surplus",
    ),
    "unknown strategy": ({"strategy": "tight"}, "spec.strategy", "tight"),
    "level of nothing": ({"levelRequired": True}, "spec.levelRequired", "say in level"),
    "unknown policy": ({"sizing": {"policy": "greedy"}}, "spec.sizing.policy", "greedy"),
    "no policy": ({"sizing": {"parameters": {"hold": 3}}}, "spec.sizing.policy", "Required"),
    "out of bounds": (
        {"sizing": {"policy": "efficiency", "parameters": {"threshold": 2}}},
        "spec.sizing.parameters.threshold",
        "2",
    ),
    "parameter as text": (
        {"sizing": {"policy": "efficiency", "parameters": {"threshold": "0.1"}}},
        "spec.sizing.parameters.threshold",
        "string",
    ),
    "both utilities": (
        utility(points=[{"until": 60, "value": 1}], value=3),
        "spec.sizing.parameters.value",
        "leave it out beside points",
    ),
    "points out of order": (
        utility(points=[{"until": 60, "value": 1}, {"until": 50, "value": 0}]),
        "spec.sizing.parameters.points",
        "until must rise",
    ),
    "points that rise": (
        utility(points=[{"until": 60, "value": 1}, {"until": 70, "value": 2}]),
        "spec.sizing.parameters.points",
        "value must not rise",
    ),
    "no schedule": ({"sizing": {"policy": "schedule"}}, "spec.schedule", "sizing.policy = schedule"),
    "schedule above max": (
        {"schedule": [{"epoch": 0, "workers": 3}, {"epoch": 5, "workers": 9}]},
        "spec.schedule",
        "workers = 9: from minWorkers, 2, to maxWorkers, 4",
    ),
    "schedule below min": ({"schedule": [{"epoch": 0, "workers": 1}]}, "spec.schedule", "workers = 1"),
    "epochs out of order": ({"schedule": [{"epoch": 4}, {"epoch": 4}]}, "spec.schedule", "epoch must rise"),
    "schedule of another policy": (
        {"sizing": {"policy": "offer"}, "schedule": [{"epoch": 0, "workers": 3}]},
        "spec.schedule",
        "sizing.policy to schedule; it is offer",
    ),
    "unknown mode": ({"batch": {"mode": "huge"}}, "spec.batch.mode", "huge"),
    "limit without perWorker": ({"batch": {"limit": 64}}, "spec.batch.perWorker", "perWorker is needed"),
    "fixed without perWorker": ({"batch": {"mode": "fixed"}}, "spec.batch.perWorker", "mode = fixed"),
    "limit of per-worker": (
        {"batch": {"mode": "per-worker", "perWorker": 8, "limit": 64}},
        "spec.batch.limit",
        "mode = per-worker",
    ),
    "limit below max": (
        {"batch": {"perWorker": 1, "limit": 3}},
        "spec.batch.limit",
        "batch.limit = 3: at least maxWorkers, which is 4",
    ),
    "restarts negative": ({"maxRestarts": -1}, "spec.maxRestarts", "-1"),
    "relative path": ({"checkpoint": {"path": "here"}}, "spec.checkpoint.path", "here"),
    "no duration": ({"checkpoint": {"path": "/here", "every": "often"}}, "spec.checkpoint.every", "often"),
}

FITS = {
    "offer": set(),
    "efficiency": {"threshold", "step", "stride", "samples", "confidence", "tolerance", "forget"},
    "utility": {
        *("value", "deadline", "points", "price"),
        *("step", "stride", "samples", "confidence", "tolerance", "forget"),
    },
    "schedule": {"lead"},
}
VALUES = {"points": [{"until": 60, "value": 1}]}


async def refusal(admin, job):
    """What the API server says when it refuses the job; fails when it does not."""
    with pytest.raises(ApiError) as refused:
        await admin.request("POST", JOBS, body=job, dryRun="All", fieldValidation="Strict")
    assert refused.value.status in {400, 422}, str(refused.value)
    assert "evaluating rule" not in str(refused.value), "a rule broke instead of judging"
    return str(refused.value)


@pytest.mark.parametrize("case", BAD)
async def test_refused(admin, case):
    """A bad spec is refused by the API server, with the field's path and the value, or what would be right."""
    change, field, words = BAD[case]
    job = a_job(**change)
    job["spec"] = {name: value for name, value in job["spec"].items() if value is not None}
    said = await refusal(admin, job)

    assert f"{field}:" in said
    assert words in said


@pytest.mark.parametrize("policy", FITS)
async def test_parameters_fit_their_policy(admin, policy):
    """Each parameter of another policy is refused, with its path and the policy."""
    for name in sorted(set().union(*FITS.values()) - FITS[policy]):
        job = a_job(sizing={"policy": policy, "parameters": {name: VALUES.get(name, 1)}})
        if policy == "schedule":
            job["spec"]["schedule"] = [{"epoch": 0, "workers": 2}]
        words = f"{name}: Invalid value: {name} is no parameter of the policy {policy}"
        assert f"spec.sizing.parameters.{words}" in await refusal(admin, job)


async def test_every_parameter_is_accepted_where_it_fits(admin):
    """Each policy takes all its parameters, and those of every policy, at once."""
    for policy, own in FITS.items():
        given = {name: VALUES.get(name, 1) for name in own - {"value", "deadline"}} | {
            "hold": 0,
            "horizon": 60.5,
        }
        job = a_job(sizing={"policy": policy, "parameters": given})
        if policy == "schedule":
            job["spec"]["schedule"] = [{"epoch": 0, "workers": 2}, {"epoch": 2.5, "env": {"LR": "0.1"}}]
        await admin.request("POST", JOBS, body=job, dryRun="All", fieldValidation="Strict")
        assert decode_spec(job["spec"])[1] == ()


async def test_misspelt(admin):
    """A field that there is not is refused by its path, at every depth."""
    for change, field in (
        ({"maxWorker": 4}, "spec.maxWorker"),
        ({"sizing": {"policy": "offer", "parameters": {"holds": 3}}}, "spec.sizing.parameters.holds"),
        ({"batch": {"perworker": 4}}, "spec.batch.perworker"),
    ):
        assert f'unknown field "{field}"' in await refusal(admin, a_job(**change))


async def test_names(admin):
    """A name that is no label's value is refused."""
    job = a_job()
    job["metadata"]["name"] = "j" * 64

    assert "metadata.name: at most 63 characters" in await refusal(admin, job)


# --- what people do ---


async def test_scale(elastic, admin):
    """`kubectl scale` writes spec.workers, within what the field takes, and finds the workers by the status."""
    name = (await admin.create(JOBS, a_job()))["metadata"]["name"]
    elastic.kubectl("scale", "ej", name, "--replicas=3", "-n", TEAM)
    path = f"{JOBS}/{name}"
    await admin.patch(
        f"{path}/status",
        {"status": {"workers": 2, "selector": f"gangwright.io/elastic-job={name}"}},
        how="merge",
    )
    scale = await admin.get(f"{path}/scale")

    assert (await admin.get(path))["spec"]["workers"] == 3
    assert scale["spec"]["replicas"] == 3
    assert scale["status"] == {"replicas": 2, "selector": f"gangwright.io/elastic-job={name}"}
    with pytest.raises(CommandError, match=r"spec\.workers"):
        elastic.kubectl("scale", "ej", name, "--replicas=10001", "-n", TEAM)


async def test_scale_to_zero(elastic, admin):
    """`kubectl scale` and `gangwright resize` may write 0, which the master takes for minWorkers."""
    made = await admin.create(JOBS, a_job())
    path = f"{JOBS}/{made['metadata']['name']}"
    elastic.kubectl("scale", "ej", made["metadata"]["name"], "--replicas=0", "-n", TEAM)
    found = await admin.get(path)
    spec, problems = decode_spec(found["spec"])

    assert found["spec"]["workers"] == 0
    assert (problems, spec and spec.clamp(spec.workers or 0)) == ((), 2)
    resized = await admin.patch(path, {"spec": {"workers": 0}}, how="merge")
    assert resized["spec"]["workers"] == 0


async def test_columns(elastic, admin):
    """`kubectl get ej` shows how a job stands; `-o wide` also why."""
    name = (await admin.create(JOBS, a_job()))["metadata"]["name"]
    status = {
        "phase": "Running",
        "workers": 3,
        "wanted": 4,
        "samplesPerSecond": 480.5,
        "round": 7,
        "restarts": 1,
        "reason": "four scale",
    }
    await admin.patch(f"{JOBS}/{name}/status", {"status": status}, how="merge")
    narrow = elastic.kubectl("get", "ej", name, "-n", TEAM).splitlines()
    wide = elastic.kubectl("get", "elasticjob", name, "-n", TEAM, "-o", "wide").splitlines()

    assert narrow[0].split() == ["NAME", "PHASE", "WORKERS", "WANTED", "MIN", "MAX", "SAMPLES/S", "AGE"]
    assert narrow[1].split()[:-1] == [name, "Running", "3", "4", "2", "4", "480.5"]
    assert wide[1].split()[7:-1] == ["7", "1", "four", "scale"]


def test_explained(elastic):
    """`kubectl explain` has a word for every field of the spec."""
    for field in (
        "minWorkers",
        "sizing.parameters.stride",
        "schedule.epoch",
        "batch.limit",
        "checkpoint.every",
    ):
        assert "DESCRIPTION" in elastic.kubectl("explain", f"elasticjob.spec.{field}")
        assert "<empty>" not in elastic.kubectl("explain", f"elasticjob.spec.{field}")


# --- what the master does ---

FULL = Status(
    phase=Phase.RESIZING,
    reason="two newcomers warm up",
    conditions=(Condition("Seated", True, "QuorumSeated", "2 of 2", 1_700_000_000.0, 3),),
    round=7,
    workers=2,
    selector="gangwright.io/elastic-job=full",
    wanted=4,
    wanted_by="efficiency",
    members=(
        Member(
            name="full-1-abcde", uid="u1", rank=0, phase=WorkerPhase.TRAINING, node="n1", step=9, committed=8,
            step_seconds=0.25, compute_seconds=0.125, reason="waits for nobody",
        ),
        Member(name="full-2-abcde", uid="u2", phase=WorkerPhase.WARMING_UP, role="surplus"),
    ),
    samples_per_second=480.5,
    batch=BatchSeen("capped", 256, 128, 2.0),
    last_resize=Resize(before=4, to=2, cause="lost", idle_seconds=0.125, at=1_700_000_001.5),
    restarts=1,
    next_change=Next(4, 30.0, 1_700_000_100.0, "schedule"),
    checkpoint=Checkpoint("/checkpoints/full", 8),
    observed_generation=3,
    values={"loss": 0.5, "accuracy": 0.25},
    uses=("batch", "rate"),
    assignment=Round(
        number=7, cause="lost", ring=(Seat("u1", "full-1-abcde", "n1"),), leaving=(Seat("u3", "full-3-abcde"),),
        holding=(Seat("u2", "full-2-abcde", "n2"),), saver="u1", sync=True, restore="/checkpoints/full/8", samples=4096,
        step=8, epoch=1.5, env={"LR": "0.1"}, global_batch=256, per_worker=128, ramp_steps=500, lr_scale=2.0, stage=1,
    ),
    barred=(Barred("n3", 2, 1_700_000_300.0, "image"),),
    started_at=1_699_999_000.0,
)  # fmt: skip
"""Every field has a value."""


async def test_the_whole_status_survives(admin, master):
    """The master's account writes a status in which every field has a value, and reads the very same again."""
    made = await admin.create(JOBS, a_job())
    path = f"{JOBS}/{made['metadata']['name']}"
    await master.patch(
        f"{path}/status", {"status": encode_status(FULL)}, how="merge", fieldValidation="Strict"
    )

    assert decode(await admin.get(path)).status == FULL


@pytest.mark.parametrize("role", [workers.CORE, workers.SURPLUS])
async def test_the_master_makes_its_workers(admin, master, role):
    """A worker as the master writes it is admitted with every policy in force, gated once, and can be removed again."""
    _, pod = await a_worker(admin, role)
    made = await master.create(PODS, pod)

    assert made["spec"]["schedulingGates"] == [{"name": "gangwright.io/planned"}]
    assert made["spec"]["priority"] == (-100 if role == workers.SURPLUS else 0)
    await master.delete(f"{PODS}/{made['metadata']['name']}", grace=0)
    assert await admin.find(f"{PODS}/{made['metadata']['name']}") is None


WRONG = {
    "nobody's": lambda pod: pod["metadata"].pop("ownerReferences"),
    "a Job's": lambda pod: pod["metadata"]["ownerReferences"][0].update(kind="Job", apiVersion="batch/v1"),
    "not controlled": lambda pod: pod["metadata"]["ownerReferences"][0].update(controller=False),
    "another job's by its label": lambda pod: pod["metadata"]["labels"].update(
        {"gangwright.io/elastic-job": "x"}
    ),
    "of another scheduler": lambda pod: pod["spec"].update(schedulerName="default-scheduler"),
    "that restarts": lambda pod: pod["spec"].update(restartPolicy="Always"),
    "with a plan": lambda pod: pod["metadata"]["annotations"].update({"gangwright.io/plan": "forged"}),
    "with a seat": lambda pod: pod["metadata"]["annotations"].update({"gangwright.io/seat": "forged"}),
}


@pytest.mark.parametrize("case", WRONG)
async def test_the_master_makes_no_other_pods(admin, master, case):
    """A pod that is no worker of an ElasticJob, or claims a seat, is refused to the master's account."""
    _, pod = await a_worker(admin)
    WRONG[case](wrong := deepcopy(pod))

    await forbidden(master.create(PODS, wrong))


async def forbidden(call):
    """The call is refused by one of our policies, which judged and did not break."""
    with pytest.raises(ApiError) as refused:
        await call
    assert refused.value.status == 403, str(refused.value)
    assert "ValidatingAdmissionPolicy 'gangwright-" in str(refused.value)
    assert "resulted in error" not in str(refused.value)


async def test_the_master_removes_no_other_pods(admin, master):
    """Somebody else's pod cannot be deleted by the master's account."""
    pod = await admin.create(PODS, a_pod())

    await forbidden(master.delete(f"{PODS}/{pod['metadata']['name']}"))


async def test_the_master_changes_the_quorum_alone(admin, master):
    """Of a worker it may write the gang's quorum, and no image, label, gate, owner or other annotation."""
    _, pod = await a_worker(admin)
    made = await master.create(PODS, pod)
    path = f"{PODS}/{made['metadata']['name']}"
    said = {"gangwright.io/min-members": "3"}
    quoted = await master.patch(path, {"metadata": {"annotations": said}}, how="merge")

    assert quoted["metadata"]["annotations"]["gangwright.io/min-members"] == "3"
    for change in (
        {"metadata": {"annotations": {"example.com/mine": "1"}}},
        {"metadata": {"annotations": {"gangwright.io/elastic-number": None}}},
        {"metadata": {"labels": {"gangwright.io/surplus": "true"}}},
        {"metadata": {"ownerReferences": None}},
        {"spec": {"schedulingGates": None}},
        {"spec": {"containers": [made["spec"]["containers"][0] | {"image": "another"}]}},
    ):
        await forbidden(master.patch(path, change, how="merge"))


@pytest.mark.parametrize("kind", [Confinement.INGRESS, Confinement.BOTH])
async def test_the_master_confines_its_jobs(admin, master, kind):
    """The policy of a job is applied, twice, by the master's account."""
    owner, _ = await a_worker(admin)
    call = calls.confine(owner, kind, 10273)
    for _ in range(2):
        made = await master.patch(call.path, yaml.safe_load(call.body), how="apply", **call.params)

    assert made["spec"]["podSelector"] == {"matchLabels": {"gangwright.io/elastic-job": owner.name}}


async def test_the_master_confines_nobody_else(admin, master):
    """A policy of nobody's, one for all pods, and a change of somebody else's are refused."""
    owner, _ = await a_worker(admin)
    own = yaml.safe_load(calls.confine(owner, Confinement.INGRESS, 10273).body)
    nobodys, wide = deepcopy(own), deepcopy(own)
    del nobodys["metadata"]["ownerReferences"]
    wide["spec"]["podSelector"] = {}
    theirs = {"metadata": {"name": "theirs"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    await admin.create(POLICIES, theirs)

    await forbidden(master.create(POLICIES, nobodys))
    await forbidden(master.create(POLICIES, wide))
    await forbidden(master.patch(f"{POLICIES}/theirs", {"spec": own["spec"]}, how="merge"))


CAN = """
get,list,watch                  elasticjobs.gangwright.io
patch                           elasticjobs.gangwright.io/status
list,watch,create,patch,delete  pods
list,watch                      nodes
create,patch                    networkpolicies.networking.k8s.io
create                          events.events.k8s.io tokenreviews.authentication.k8s.io
"""
CANNOT = """
create,update,patch,delete                   elasticjobs.gangwright.io nodes nodes/status
update,deletecollection                      pods
create                                       pods/binding pods/exec pods/eviction serviceaccounts/token
patch,update                                 pods/status elasticjobs.gangwright.io/scale
get,list,create,update,delete                secrets configmaps serviceaccounts
get,list,watch,update,delete                 networkpolicies.networking.k8s.io
get,list,create,update                       leases.coordination.k8s.io
create                                       subjectaccessreviews.authorization.k8s.io deployments.apps
"""


async def test_what_the_master_may(master):
    """The master's account may do what the master does, everywhere, and nothing of what it never should."""
    granted = {
        question for question in (*questions(CAN), *questions(CANNOT)) if await allowed(master, *question)
    }

    assert granted == set(questions(CAN))


async def test_what_the_master_may_at_home(master):
    """In its own namespace it reaches its Lease and its Secret by name, and no others."""
    asked = [
        (verb, resource, name)
        for resource, own in (
            ("leases.coordination.k8s.io", "gangwright-elastic"),
            ("secrets", "gangwright-elastic-tls"),
        )
        for verb in ("get", "update")
        for name in (own, "gangwright")
    ]
    answers = {ask: await allowed(master, ask[0], ask[1], "gangwright-system", ask[2]) for ask in asked}

    assert {ask for ask, yes in answers.items() if yes} == {ask for ask in asked if ask[2] != "gangwright"}
    assert not await allowed(master, "list", "secrets", "gangwright-system")


async def test_the_master_at_work(elastic, admin, master, tmp_path):
    """The program itself, under its own account: it takes its Lease, keeps its Secret, and gates a job's quorum;
    nothing is refused.
    """
    await admin.delete_all(JOBS)
    since = elastic.audit.mark()
    program = Process("elastic-rights", elastic.kubeconfig(MASTER), tmp_path)
    try:
        await asyncio.to_thread(program.start)
        name = (await admin.create(JOBS, a_job()))["metadata"]["name"]
        await admin.until(
            f"{JOBS}/{name}", lambda job: len(job.get("status", {}).get("members", [])) == 2, within=60
        )
        pods = await admin.items(PODS, labels=f"gangwright.io/elastic-job={name}")
        await admin.get(where("secrets", "gangwright-system", "gangwright-elastic-tls"))
        await admin.get(f"{POLICIES}/{name}-workers")
    finally:
        await asyncio.to_thread(program.stop)

    assert [pod["spec"]["schedulingGates"] for pod in pods] == [[{"name": "gangwright.io/planned"}]] * 2
    assert elastic.audit.refused(MASTER.user, since=since) == []
    assert {
        ("list", "nodes"),
        ("watch", "pods"),
        ("create", "pods"),
        ("patch", "elasticjobs.gangwright.io/status"),
    } <= (elastic.audit.used(MASTER.user, since=since))
