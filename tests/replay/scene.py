"""A small cluster with everything that a document can hold: gangs that run, wait, lack members, and strangers."""

from scheduler.model import events as ev
from scheduler.model.demand import Operator, Requirement, Term, Toleration
from scheduler.model.policy import Policy
from scheduler.model.workload import (
    Asleep,
    Budget,
    Complaint,
    GangKey,
    Group,
    Membership,
    Owner,
    OwnerTraits,
    Pending,
    Phase,
    Pod,
    PodKey,
    Preempted,
    Quota,
    SeatNote,
    Uid,
    Wish,
)
from scheduler.replay import Document, document
from tests.support.builders import RACK, a_demand, a_node, a_taint, some_nodes

NOW = 1_800_000_000.0
OWNER = Owner("Job", "lesson", "owner-1", "batch/v1")


def a_pod(name: str, gang: str = "", quorum: int = 1, *, namespace: str = "team", **fields) -> Pod:
    """A gated pod of ours, with the fields given; `fields` may hold a demand's words, such as gpu=4."""
    needs = {
        key: fields.pop(key) for key in ("cpu", "memory", "gpu", "selector", "constraints") if key in fields
    }
    own = {"scheduler": "gangwright", "gated": True, "created": NOW - 100, **fields}
    if gang and "membership" not in own:
        own["membership"] = Membership(GangKey(namespace, gang), "gangwright", quorum={"": quorum})
    demand = own.pop("demand", None) or a_demand(**{"cpu": 1, **needs})
    return Pod(Uid(f"{namespace}-{name}-uid"), PodKey(namespace, name), demand, **own)


def some_gang(name: str, size: int, **fields) -> list[Pod]:
    return [a_pod(f"{name}-{number}", name, size, **fields) for number in range(size)]


def a_document(*pods: Pod, racks: int = 2, nodes: int = 2, policy: Policy | None = None, **each) -> Document:
    """A document of these pods, on racks of nodes with eight devices each."""
    told = [ev.NodeSeen(node) for node in some_nodes(racks=racks, nodes=nodes, **{"gpu": 8, **each})]
    return document([*told, *map(ev.PodSeen, pods)], policy or Policy(), NOW, "0")


def a_full_document() -> Document:
    """One of everything."""
    picky = Term(
        labels=(
            Requirement("disk", Operator.IN, ("ssd", "nvme")),
            Requirement("cores", Operator.GREATER, ("8",)),
        ),
        fields=(Requirement("metadata.name", Operator.NOT_IN, ("a0-r0-n1",)),),
    )
    nodes = [
        *some_nodes(racks=2, nodes=2, gpu=8, labels={"disk": "ssd", "cores": "16", "team": "secret-team"}),
        a_node(
            "rack", gpu=8, rack="rack", labels={"disk": "nvme", "cores": "9"}, taints=[a_taint("own", "blue")]
        ),
        a_node("rack-1", gpu=8, rack="rack-1", schedulable=False),
    ]
    tolerant = a_demand(1, gpu=8).__class__(
        a_demand(1, gpu=8).requests,
        selector=((RACK, "rack"),),
        tolerations=(Toleration("own", value="blue"),),
    )
    pods = [
        *some_gang(
            "runs",
            2,
            gpu=4,
            node="a0-r0-n0",
            phase=Phase.RUNNING,
            gated=False,
            owner=OWNER,
            labels="app=secret-app,whose=secret-person",
            preempted=Preempted("gang team/secret", NOW),
        ),
        *some_gang("waits", 2, gpu=8, constraints=((picky,),), owner=OWNER),
        *some_gang("huge", 9, gpu=8, priority=7),
        a_pod("half-0", "half", 2),
        a_pod("picky-0", demand=tolerant),
        a_pod("held", gpu=1, gated=False, seat=SeatNote("a0-r1-n0", "plan"), pinned="a0-r1-n0"),
        a_pod("tried", gpu=8, gated=False, pending=Pending("Unschedulable", NOW - 5)),
        a_pod("stranger", gpu=4, scheduler="default-scheduler", gated=False, node="a0-r1-n1"),
        a_pod("wrong", complaints=(Complaint("gangwright.io/strategy", "secret", "write pack"),)),
        a_pod(
            "grouped-0",
            membership=Membership(
                GangKey("team", "grouped"), "volcano", role="worker", wish=Wish(level="host")
            ),
        ),
    ]
    asleep = Asleep(
        "nightly", "gangwright", Membership(GangKey("team", "night"), "gangwright", quorum={"": 4})
    )
    told: list[ev.Event] = [
        *map(ev.NodeSeen, nodes),
        ev.GroupSeen(Group(GangKey("team", "grouped"), "volcano", {"worker": 1})),
        ev.OwnerSeen(OwnerTraits(OWNER.uid, remakes_freely=True)),
        ev.OwnerSeen(OwnerTraits("nightly", remakes_freely=True, suspended=True, asleep=asleep)),
        ev.QuotaSeen(Quota("team", "limit", (("cpu", 1000),))),
        ev.BudgetSeen(
            Budget("team", "secret-budget", (Requirement("app", Operator.IN, ("secret-app",)),), 1)
        ),
        *map(ev.PodSeen, pods),
    ]
    return document(told, Policy(), NOW, "0")
