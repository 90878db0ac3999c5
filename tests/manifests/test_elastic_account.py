"""What the real API server lets the elastic master do, and what it keeps from it."""

import asyncio
from copy import deepcopy

import pytest
import yaml

from bench.plane import where
from scheduler.elastic.controller import pod_template, requests
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
from scheduler.elastic.job.status_json import decode_status, encode_status
from scheduler.settings import Confinement
from tests.elastic.controller.support.process import Process
from tests.manifests.support.elastic import JOBS, MASTER, PODS, POLICIES, a_job, a_pod, a_worker, forbidden
from tests.manifests.test_installation import allowed, questions

pytestmark = [pytest.mark.plane, pytest.mark.usefixtures("elastic")]


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
    last_resize=Resize(before=4, to=2, cause="WorkerLost", idle_seconds=0.125, at=1_700_000_001.5),
    restarts=1,
    next_change=Next(4, 30.0, 1_700_000_100.0, "schedule"),
    checkpoint=Checkpoint("/checkpoints/full", 8),
    observed_generation=3,
    values={"loss": 0.5, "accuracy": 0.25},
    uses=("batch", "rate"),
    assignment=Round(
        number=7, cause="WorkerLost", ring=(Seat("u1", "full-1-abcde", "n1"),), leaving=(Seat("u3", "full-3-abcde"),),
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

    assert decode_status((await admin.get(path))["status"]) == FULL


@pytest.mark.parametrize("role", [pod_template.CORE, pod_template.SURPLUS])
async def test_the_master_makes_its_workers(admin, master, role):
    """A worker as the master writes it is admitted with every policy in force, gated once, and can be removed again."""
    _, pod = await a_worker(admin, role)
    made = await master.create(PODS, pod)

    assert made["spec"]["schedulingGates"] == [{"name": "gangwright.io/planned"}]
    assert made["spec"]["priority"] == (-100 if role == pod_template.SURPLUS else 0)
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
    call = requests.confine(owner, kind, 10273)
    for _ in range(2):
        made = await master.patch(call.path, yaml.safe_load(call.body), how="apply", **call.params)

    assert made["spec"]["podSelector"] == {"matchLabels": {"gangwright.io/elastic-job": owner.name}}


async def test_the_master_confines_nobody_else(admin, master):
    """A policy of nobody's, one for all pods, and a change of somebody else's are refused."""
    owner, _ = await a_worker(admin)
    own = yaml.safe_load(requests.confine(owner, Confinement.INGRESS, 10273).body)
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
