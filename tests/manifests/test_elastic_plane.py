"""The elastic master's manifests on the real API server: what it accepts, what it refuses, and by which words."""

import pytest

from bench.plane import ApiError, where
from bench.plane.errors import CommandError
from scheduler.elastic.job.validation import decode_spec
from tests.manifests import TEAM
from tests.manifests.support.elastic import JOBS, a_job, template
from tests.manifests.support.rendering import MANIFESTS, rendered
from tests.manifests.test_elastic import SAMPLES

pytestmark = [pytest.mark.plane, pytest.mark.usefixtures("elastic")]


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
        "maxWorkers = 4: must be at least minWorkers (5)",
    ),
    "min above max, many digits": (
        {"minWorkers": 1203, "maxWorkers": 980},
        "spec.maxWorkers",
        "maxWorkers = 980: must be at least minWorkers (1203)",
    ),
    "no min": ({"minWorkers": None}, "spec.minWorkers", "Required"),
    "min 0": ({"minWorkers": 0}, "spec.minWorkers", "0"),
    "min negative": ({"minWorkers": -3}, "spec.minWorkers", "-3"),
    "max too large": ({"maxWorkers": 10001}, "spec.maxWorkers", "10001"),
    "more than a round holds": (
        {"maxWorkers": 171},
        "spec.maxWorkers",
        "must be at most 170, because one round",
    ),
    "half a worker": ({"minWorkers": 1.5}, "spec.minWorkers", "integer"),
    "workers negative": ({"workers": -1}, "spec.workers", "-1"),
    "workers too many": ({"workers": 10001}, "spec.workers", "10001"),
    "no template": ({"template": None}, "spec.template", "Required"),
    "a label of ours": (
        {"template": template() | {"metadata": {"labels": {"app": "a", "gangwright.io/surplus": "true"}}}},
        "spec.template.metadata.labels",
        "keys that begin with gangwright.io/ are reserved",
    ),
    "an annotation of ours": (
        {"template": template() | {"metadata": {"annotations": {"gangwright.io/seat": "n1 plan"}}}},
        "spec.template.metadata.annotations",
        "keys that begin with gangwright.io/ are reserved",
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
        "containers[0].command: is required",
    ),
    "restarts": (
        {"template": template(restartPolicy="Always")},
        "spec.template.spec.restartPolicy",
        "restartPolicy = Always: must be Never",
    ),
    "another scheduler": (
        {"template": template(schedulerName="default-scheduler")},
        "spec.template.spec.schedulerName",
        "schedulerName = default-scheduler: must be gangwright",
    ),
    "a node": ({"template": template(nodeName="n1")}, "spec.template.spec.nodeName", "nodeName = n1"),
    "quorum as surplus": (
        {"template": template(priorityClassName="gangwright-surplus")},
        "spec.template.spec.priorityClassName",
        "priorityClassName = gangwright-surplus",
    ),
    "unknown strategy": ({"strategy": "tight"}, "spec.strategy", "tight"),
    "level of nothing": ({"levelRequired": True}, "spec.levelRequired", "level is required"),
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
        "must not be set together with points",
    ),
    "points out of order": (
        utility(points=[{"until": 60, "value": 1}, {"until": 50, "value": 0}]),
        "spec.sizing.parameters.points",
        "until must increase",
    ),
    "points that rise": (
        utility(points=[{"until": 60, "value": 1}, {"until": 70, "value": 2}]),
        "spec.sizing.parameters.points",
        "value must not increase",
    ),
    "no schedule": ({"sizing": {"policy": "schedule"}}, "spec.schedule", "sizing.policy = schedule"),
    "schedule above max": (
        {"schedule": [{"epoch": 0, "workers": 3}, {"epoch": 5, "workers": 9}]},
        "spec.schedule",
        "workers = 9: must be from minWorkers (2) to maxWorkers (4)",
    ),
    "schedule below min": ({"schedule": [{"epoch": 0, "workers": 1}]}, "spec.schedule", "workers = 1"),
    "epochs out of order": (
        {"schedule": [{"epoch": 4}, {"epoch": 4}]},
        "spec.schedule",
        "epoch must increase",
    ),
    "schedule of another policy": (
        {"sizing": {"policy": "offer"}, "schedule": [{"epoch": 0, "workers": 3}]},
        "spec.schedule",
        "workers requires sizing.policy schedule, not offer",
    ),
    "unknown mode": ({"batch": {"mode": "huge"}}, "spec.batch.mode", "huge"),
    "limit without perWorker": ({"batch": {"limit": 64}}, "spec.batch.perWorker", "perWorker is required"),
    "fixed without perWorker": ({"batch": {"mode": "fixed"}}, "spec.batch.perWorker", "mode = fixed"),
    "limit of per-worker": (
        {"batch": {"mode": "per-worker", "perWorker": 8, "limit": 64}},
        "spec.batch.limit",
        "mode = per-worker",
    ),
    "limit below max": (
        {"batch": {"perWorker": 1, "limit": 3}},
        "spec.batch.limit",
        "batch.limit = 3: must be at least maxWorkers (4)",
    ),
    "restarts negative": ({"maxRestarts": -1}, "spec.maxRestarts", "-1"),
    "no deadline": ({"progressDeadline": ""}, "spec.progressDeadline", "should match"),
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
        words = f"{name}: Invalid value: {name} is not a parameter of the policy {policy}"
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


FIXED = {
    "another strategy": (
        {"strategy": "spread"},
        "spec.strategy",
        "strategy = spread: cannot change from pack unless",
    ),
    "no level any more": ({"level": None}, "spec.level", "level = (none): cannot change from rack unless"),
    "suddenly required": ({"levelRequired": True}, "spec.levelRequired", "Suspend it first"),
    "another folder": (
        {"checkpoint": {"path": "/other"}},
        "spec.checkpoint",
        "checkpoint.path = /other: cannot change from /kept",
    ),
    "no folder any more": (
        {"checkpoint": None},
        "spec.checkpoint",
        "checkpoint.path = (none): cannot change from /kept",
    ),
}
"""What cannot change under workers that were started with it."""


@pytest.fixture
async def placed(admin):
    """The path of a job that says how it is laid out and where it is saved."""
    job = a_job(strategy="pack", level="rack", checkpoint={"path": "/kept"})
    return f"{JOBS}/{(await admin.create(JOBS, job))['metadata']['name']}"


@pytest.mark.parametrize("case", FIXED)
async def test_what_stays(admin, placed, case):
    """What workers were seated by and write to is not changed under them: refused, with path, value and way out."""
    change, field, words = FIXED[case]
    with pytest.raises(ApiError) as refused:
        await admin.patch(placed, {"spec": change}, how="merge")

    assert refused.value.status == 422, str(refused.value)
    assert f"{field}:" in str(refused.value)
    assert words in str(refused.value)


async def test_a_suspended_job_may_be_laid_out_anew(admin, placed):
    """Strategy and level change while nobody is seated; the folder does not, for what is saved lies there."""
    await admin.patch(placed, {"spec": {"suspend": True}}, how="merge")
    change = {"strategy": "spread", "level": None, "suspend": False}
    spec = (await admin.patch(placed, {"spec": change}, how="merge"))["spec"]
    with pytest.raises(ApiError, match=r"checkpoint\.path = /other"):
        await admin.patch(placed, {"spec": {"checkpoint": {"path": "/other"}}}, how="merge")

    assert (spec["strategy"], "level" in spec) == ("spread", False)
    every = {"path": "/kept", "every": "1h"}
    assert (await admin.patch(placed, {"spec": {"checkpoint": every, "maxWorkers": 3}}, how="merge"))["spec"]


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

    assert "metadata.name: must be at most 63 characters" in await refusal(admin, job)


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
