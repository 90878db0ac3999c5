"""Whole pods, as the API server sends them, and what they must mean."""

import json
from pathlib import Path

import pytest

from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.demand import Demand, HostPort, Toleration
from scheduler.model.neighbors import Neighbors, PodSelector, PodTerm
from scheduler.model.workload import (
    Complaint,
    GangKey,
    Membership,
    Owner,
    Pending,
    Phase,
    PlanNote,
    Pod,
    PodKey,
    Preempted,
    SeatNote,
    Uid,
    Wish,
    gang_of_one,
)
from scheduler.objects import api
from scheduler.objects.interner import Interner
from scheduler.objects.pods import pod
from scheduler.objects.volumes import Volumes
from tests.objects.reading import pod_of, pod_with

GOLDEN = Path(__file__).parent / "golden"
NEW_YEAR = 1_767_225_600.0
ME = Uid("6f1f4c0e-52a5-4c39-9b1e-0d8f1a3c7e21")

GATED = Pod(
    uid=ME,
    key=PodKey("team", "train-3-x7k2p"),
    demand=Demand(
        requests=(
            ("cpu", 48_100),
            ("memory", 512 * 2**30 + 64 * 2**20),
            ("nvidia.com/gpu", 8),
            ("pods", 1),
        ),
        selector=(("accelerator", "h100"),),
        tolerations=(
            Toleration("node.kubernetes.io/not-ready", exists=True, effect="NoExecute"),
            Toleration("nvidia.com/gpu", exists=True, effect="NoSchedule"),
        ),
    ),
    scheduler="gangwright",
    priority=1000,
    created=NEW_YEAR,
    gated=True,
    held_back=True,
    membership=Membership(
        GangKey("team", "train"),
        "gangwright",
        quorum={"": 4},
        size=8,
        wish=Wish(level="rack", required=True),
    ),
    plan=PlanNote("p-9", {ME: "n2", Uid("other"): "n2"}),
    owner=Owner("Job", "train", "0f0f0f0f-0000-4000-8000-000000000001", "batch/v1"),
    pending=Pending("SchedulingGated", NEW_YEAR + 1),
    labels=(
        "batch.kubernetes.io/job-completion-index=3,batch.kubernetes.io/job-name=train,"
        "controller-uid=0f0f0f0f-0000-4000-8000-000000000001,gangwright.io/gang=train"
    ),
)

RUNNING = Pod(
    uid=Uid("uid-serve-0"),
    key=PodKey("team", "serve-0"),
    demand=Demand(requests=(("cpu", 3000), ("pods", 1)), ports=(HostPort("TCP", 8080),)),
    scheduler="gangwright",
    node="n7",
    phase=Phase.RUNNING,
    deleting=True,
    created=NEW_YEAR,
    membership=Membership(GangKey("team", "serve"), "kueue", quorum={"": 3}, size=3),
    nominated="n7",
    pinned="n7",
    seat=SeatNote("n7", "p-3", pin=True),
    bound_at=NEW_YEAR + 2,
    labels="kueue.x-k8s.io/pod-group-name=serve",
    neighbors=Neighbors(
        anti_affinity=(PodTerm("kubernetes.io/hostname", PodSelector(("team",), None, None)),)
    ),
)


@pytest.mark.parametrize(("file", "expected"), [("gated-member", GATED), ("running-member", RUNNING)])
def test_a_pod_of_the_api_server_is_read(file: str, expected: Pod) -> None:
    """Every field of the model, from every field of the API that it is made of."""
    assert pod_of((GOLDEN / f"{file}.json").read_text()) == expected


def test_the_barest_pod_is_read() -> None:
    """Nothing but a name and a uid: a plain pending pod that takes one of `pods`."""
    bare = pod_of("{metadata: {name: p, namespace: team, uid: u, labels: null, creationTimestamp: null}}")
    assert bare == Pod(Uid("u"), PodKey("team", "p"), Demand((("pods", 1),)))


@pytest.mark.parametrize(
    ("kind", "status", "told"),
    [
        ("gangwright.io/Seated", "False", "InsufficientResources"),
        ("gangwright.io/Seated", "True", None),
        ("Ready", "False", None),
    ],
)
def test_what_people_were_told_is_read(kind: str, status: str, told: str | None) -> None:
    """Our own condition alone, and only while it says that the gang waits."""
    conditions = (
        f'status: {{conditions: [{{type: {kind}, status: "{status}", reason: InsufficientResources}}]}}'
    )
    found = pod_of("{metadata: {name: p, namespace: team, uid: u}, " + conditions + "}")
    assert found.told == told


@pytest.mark.parametrize(
    ("reason", "read"),
    [("PreemptedByGang", Preempted("for\\x1b you", NEW_YEAR)), ("EvictionByEvictionAPI", None)],
)
def test_the_gang_that_a_pod_gave_way_to_is_read(reason: str, read: Preempted | None) -> None:
    """Of our own reason alone, and as text that no terminal takes for an order."""
    condition = (
        f'{{type: DisruptionTarget, status: "True", reason: {reason}, message: "for\\e you", '
        'lastTransitionTime: "2026-01-01T00:00:00Z"}'
    )
    found = pod_of(
        "{metadata: {name: p, namespace: team, uid: u}, status: {conditions: [" + condition + "]}}"
    )
    assert found.preempted == read
    assert found.disrupted


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("{}", ""),
        ("{containerStatuses: null, initContainerStatuses: [{name: a}]}", ""),
        ("{containerStatuses: [{name: a, state: {running: {}}}]}", ""),
        ("{containerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}]}", ""),
        (
            """{containerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}],
            initContainerStatuses: [{name: i, state: {waiting: {reason: ErrImagePull}}}]}""",
            "ErrImagePull",
        ),
        (
            """{containerStatuses: [{name: a, state: {running: {}}},
            {name: b, state: {waiting: {reason: CreateContainerConfigError}}}]}""",
            "CreateContainerConfigError",
        ),
    ],
)
def test_what_a_container_waits_for_is_read(status: str, why: str) -> None:
    """The first that is kept from starting by something, init containers first; a start as usual is nothing."""
    assert pod_of("{metadata: {name: p, namespace: team, uid: u}, status: " + status + "}").stuck == why


@pytest.mark.parametrize(("status", "disrupted"), [("True", True), ("False", False)])
def test_whom_the_cluster_ends_is_read(status: str, disrupted: bool) -> None:
    """The condition that evictions, preemption and the garbage collector of pods leave behind."""
    conditions = f'status: {{conditions: [{{type: DisruptionTarget, status: "{status}"}}]}}'
    found = pod_of("{metadata: {name: p, namespace: team, uid: u}, " + conditions + "}")
    assert found.disrupted is disrupted


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("", Phase.PENDING), ("Succeeded", Phase.SUCCEEDED), ("Failed", Phase.FAILED), ("Odd", Phase.UNKNOWN)],
)
def test_phases_are_read(phase: str, expected: Phase) -> None:
    """A phase that nobody knows is unknown, and occupies room."""
    assert pod_of(f"{{metadata: {{uid: u}}, status: {{phase: '{phase}'}}}}").phase is expected


@pytest.mark.parametrize(
    ("gates", "gated", "held_back"),
    [
        ("[]", False, False),
        ("[{name: gangwright.io/planned}]", True, False),
        ("[{name: other.io/gate}]", False, True),
        ("[{name: other.io/gate}, {name: gangwright.io/planned}]", True, True),
    ],
)
def test_gates_are_told_apart(gates: str, gated: bool, held_back: bool) -> None:
    """Ours is ours to remove, others are not."""
    found = pod_of(f"{{metadata: {{uid: u}}, spec: {{schedulingGates: {gates}}}}}")
    assert (found.gated, found.held_back) == (gated, held_back)


def test_kube_schedulers_own_groups_are_recognised() -> None:
    """Such pods are passed through untouched."""
    assert pod_of("{metadata: {uid: u}, spec: {schedulingGroup: {podGroupName: g}}}").native_group
    assert not pod_of("{metadata: {uid: u}, spec: {schedulingGroup: null}}").native_group


def test_an_owner_that_does_not_control_is_no_owner() -> None:
    """Only a controller makes pods again."""
    text = "{metadata: {uid: u, ownerReferences: [{kind: Job, name: j, uid: o, controller: false}]}}"
    assert pod_of(text).owner is None


@pytest.mark.parametrize("mark", ["seat", "plan"])
def test_a_mark_that_we_did_not_write_is_not_believed(mark: str) -> None:
    """None, and a complaint that refuses nothing: the pod is planned like any other."""
    found = pod_of(f"{{metadata: {{uid: u, annotations: {{gangwright.io/{mark}: mine}}}}}}")
    assert (found.seat, found.plan) == (None, None)
    assert [(c.field, c.value, c.fatal) for c in found.complaints] == [
        (f"gangwright.io/{mark}", "mine", False)
    ]


@pytest.mark.parametrize("text", ["2026-01-01T00:00:05Z", "2026-01-01T01:00:05+01:00", "2026-01-01 00:00:05"])
def test_the_training_says_when_it_was_saved(text: str) -> None:
    """As an RFC 3339 time; one without a zone is in UTC."""
    found = pod_of(f"{{metadata: {{uid: u, annotations: {{gangwright.io/checkpointed-at: '{text}'}}}}}}")
    assert (found.saved_at, found.complaints) == (NEW_YEAR + 5, ())


@pytest.mark.parametrize("text", ["", "just now", "1767225605", "1712010112345", "2026-13-01T00:00:00Z"])
def test_a_time_of_saving_that_cannot_be_read_is_said(text: str) -> None:
    """The key, the value and what would be right; the pod is refused nothing."""
    found = pod_of(f"{{metadata: {{uid: u, annotations: {{gangwright.io/checkpointed-at: '{text}'}}}}}}")
    remedy = "must be an RFC 3339 time such as 2026-03-01T09:30:00Z"
    assert found.saved_at is None
    assert found.complaints == (Complaint("gangwright.io/checkpointed-at", text, remedy, fatal=False),)


def test_a_pods_own_wishes_make_it_a_gang_of_one() -> None:
    """Keyed by its uid, so that two pods of one template are two gangs."""
    text = (
        "{metadata: {name: p, namespace: team, uid: %s, annotations: {gangwright.io/expected-runtime: 1h}}}"
    )
    for uid in ("u1", "u2"):
        membership = pod_of(text % uid).membership
        assert membership is not None
        assert membership.gang == gang_of_one("team", Uid(uid))
        assert (membership.quorum, membership.wish.expected_runtime) == ({"": 1}, 3600.0)


@pytest.mark.parametrize("key", ["gpu-fraction", "nvidia.com/container.main.gpu-memory.limit"])
def test_a_fraction_of_a_gpu_is_refused(key: str) -> None:
    """A pod that asks KAI for a part of a GPU requests no GPU, so it must not be placed. The message names the key."""
    found = pod_of(
        f"{{metadata: {{uid: u, annotations: {{{key}: '0.5'}}}}, spec: {{schedulerName: gangwright}}}}"
    )

    (complaint,) = found.complaints
    assert (complaint.field, complaint.value, complaint.fatal) == (key, "0.5", True)
    assert "request whole GPUs" in complaint.remedy


def test_equal_pods_share_what_is_equal() -> None:
    """Demand, membership and owner are one object for all pods of a template: memory is what they cost once."""
    interner, volumes = Interner(), Volumes()
    spec = "{schedulerName: gangwright, containers: [{resources: {requests: {cpu: 1}}}]}"
    found = []
    for name in ("a", "b"):
        struct = pod_with(spec, name=name)
        struct.metadata.labels = {"gangwright.io/gang": "g", "index": name}
        struct.metadata.annotations = {"gangwright.io/min-members": "2"}
        struct.metadata.owner_references = [api.OwnerReference("Job", "j", "o", "batch/v1", controller=True)]
        found.append(pod(struct, volumes, DEFAULT_LEVELS, interner))
    first, second = found
    assert first.demand is second.demand
    assert first.membership is second.membership
    assert first.owner is second.owner
    assert first.key.namespace is second.key.namespace


def test_an_interner_stays_within_its_limit() -> None:
    """When it is full it forgets what came first; what it gives is right all the same."""
    interner = Interner(limit=10)
    assert [interner.one((number, "x")) for number in range(100)] == [(number, "x") for number in range(100)]
    assert len(interner) <= 10
    assert interner.one(1) is not interner.one(True)


def test_an_interner_forgets_what_is_asked_for_no_more() -> None:
    """Words of gangs that are gone do not stay until it is full; what is in use stays the one object that it was."""
    interner = Interner(turn=50)
    first = interner.one(("in", "use"))
    for number in range(1000):
        interner.one(("of", "a", "gang", number))
        assert interner.one(("in", "use")) is first
    assert len(interner) <= 100


REFUSALS = {
    "at its door": ("OutOfcpu", "", "OutOfcpu"),
    "under pressure, at its door": ("Evicted", "", "Evicted"),
    "while it waits for its image": (
        "Preempting",
        "containerStatuses: [{name: a, state: {waiting: {reason: ErrImagePull}}}]",
        "Preempting",
    ),
    "its books closed without a start": (
        "Terminated",
        "containerStatuses: [{name: a, state: {terminated: {exitCode: 137, startedAt: null}}}]",
        "Terminated",
    ),
    "evicted after it ran": (
        "Evicted",
        "containerStatuses: [{name: a, state: {terminated: {startedAt: '2026-01-01T00:00:00Z'}}}]",
        "",
    ),
    "ended while it ran": ("NodeShutdown", "containerStatuses: [{name: a, state: {running: {}}}]", ""),
    "ended between two starts": (
        "Evicted",
        "containerStatuses: [{name: a, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}}]",
        "",
    ),
    "ended after an init container": (
        "Evicted",
        "initContainerStatuses: [{name: i, state: {terminated: {startedAt: '2026-01-01T00:00:00Z'}}}]",
        "",
    ),
    "its own time limit": ("DeadlineExceeded", "", ""),
    "no reason": ("", "", ""),
}


@pytest.mark.parametrize(("reason", "containers", "refused"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_kubelet_refused_is_told_from_what_ran(reason: str, containers: str, refused: str) -> None:
    """The pod failed with a reason, and none of its containers ever began."""
    status = ", ".join(part for part in (f"phase: Failed, reason: {reason!r}", containers) if part)
    found = "{metadata: {name: p, namespace: t, uid: u}, spec: {nodeName: n1}, status: {" + status + "}}"
    assert pod_of(found).refused == refused
    assert pod_of(found.replace("Failed", "Pending")).refused == ""
    assert pod_of(found.replace("nodeName: n1", "nodeName: ''")).refused == ""


SAID = (
    "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules. preemption: 0/4 nodes are"
    " available: 4 No preemption victims found for incoming pod."
)
QUOTED = "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules"


@pytest.mark.parametrize(
    ("spec", "said", "quoted"),
    [
        ("{volumes: [{name: d, rbd: {image: x}}]}", SAID, QUOTED),
        ("{volumes: [{name: d, rbd: {image: x}}]}", "a\n b" + 300 * "c", "a b" + 196 * "c" + "…"),
        ("{}", SAID, ""),
    ],
)
def test_kube_scheduler_is_quoted_about_rules_that_the_planner_does_not_model(
    spec: str, said: str, quoted: str
) -> None:
    """On one line, without its word on preemption, and no longer than people read. Of other pods nothing is kept."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    status = f"status: {{conditions: [{json.dumps(condition)}]}}"
    found = pod_of("{metadata: {name: p, namespace: t, uid: u}, spec: " + spec + ", " + status + "}")
    assert found.pending == Pending("Unschedulable", 0.0, quoted)
