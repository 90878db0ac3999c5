"""Room that was being made for a gang when the process died: the next start goes on with the same victims."""

from dataclasses import replace

import pytest

from scheduler.ledger.phase import State
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.effects import Evict, Nominate, Ungate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import Kind, Preempt, Unit
from scheduler.model.queueing import Share
from scheduler.model.workload import GiveWay, Owner, PlanNote, Pod, Wish
from tests.engine.support.cast import a_gang_of_pods, an_owner, traits_of
from tests.ledger.support.desk import Desk, told
from tests.ledger.support.invariants import broken
from tests.support.builders import a_node

NODES = (a_node("n1", gpu=2), a_node("n2", gpu=2))


def running(name: str, node: str, *, priority: int = 0, **each) -> list[Pod]:
    pods = a_gang_of_pods(name, 2, owner=an_owner("ReplicaSet", name), gpu=1, **each)
    return [replace(pod, node=node, gated=False, bound_at=1.0, priority=priority) for pod in pods]


def urgent(**each) -> list[Pod]:
    return a_gang_of_pods("urgent", 2, gpu=1, priority=10, **each)


def written(pods: list[Pod], victims: list[Pod]) -> list[Pod]:
    """The plan stands on the first member: all sit down on n1 when the victims are gone."""
    note = PlanNote("plan", {pod.uid: "n1" for pod in pods}, tuple(pod.uid for pod in victims))
    return [replace(pods[0], plan=note), *pods[1:]]


def restarted(*pods: Pod, policy: Policy | None = None, told_before: tuple[ev.Event, ...] = ()):
    desk = Desk(*NODES, policy=policy or Policy(), acting=False)
    desk.tell(*told_before)
    desk.see(*pods)
    return desk, [*desk.tell(ev.Synced()), *desk.tell(ev.TookOver())]


def asked(effects) -> set[str]:
    return {effect.key.name for effect in told(effects, Evict)}


def test_the_plan_is_written_before_anybody_is_asked() -> None:
    """First the seats and the victims stand on the gang; when that has come true, the victims are asked to leave."""
    desk = Desk(*NODES)
    low, high = running("low", "n1"), urgent()
    desk.see(*low, *high)
    gang = desk.wanted("urgent")
    snapshot = desk.ledger.snapshot()
    rows = snapshot.index["n1"]
    uses = desk.ledger.nodes.vector(low[0].demand)
    unit = Unit(
        desk.record("low").key, Kind.GANG, tuple(p.uid for p in low), [rows, rows], [uses, uses], 0, 0.0
    )
    preempt = Preempt({pod.uid: "n1" for pod in high}, (unit,))

    (plan,) = told(desk.tell(ev.VictimsChosen(gang, preempt, snapshot.generation)), WritePlan, Evict)

    assert isinstance(plan, WritePlan)
    assert set(plan.victims) == {pod.uid for pod in low}
    desk.carry_out(plan)
    assert asked(desk.done(plan)) == {"low-0", "low-1"}


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_restart_takes_no_others(gone: int) -> None:
    """Some of the victims have left and the rest is asked; another gang that could give way as well is not touched."""
    low, other, high = running("low", "n1"), running("other", "n2"), urgent()
    left = low[gone:]
    desk, effects = restarted(*left, *other, *written(high, low))

    assert asked(effects) == {pod.key.name for pod in left}
    assert {desk.seat("urgent-0"), desk.seat("urgent-1")} == {"n1"}
    effects = desk.lose(*(pod.key.name for pod in left)) if left else effects
    ungated = []
    while steps := told(effects, WritePlan, Nominate, Ungate):
        ungated += told(steps, Ungate)
        desk.carry_out(*steps)
        effects = desk.done(*steps)
    assert [effect.node for effect in ungated] == ["n1", "n1"]
    assert broken(desk.ledger) == []


def test_who_leaves_already_is_not_asked_again() -> None:
    """A victim with a long grace period is waited for."""
    low, high = running("low", "n1"), urgent()
    leaving = [replace(low[0], deleting=True), low[1]]
    desk, effects = restarted(*leaving, *written(high, low))

    assert asked(effects) == {"low-1"}
    assert desk.record("urgent").state == State.FREEING
    assert told(desk.lose("low-1"), Ungate, WritePlan, Nominate) == []
    assert told(desk.lose("low-0"), Nominate, WritePlan) != []


def test_the_successor_of_a_victim_does_not_take_the_room() -> None:
    """What the victims' owner makes anew waits: the room is the gang's."""
    low, high = running("low", "n1"), urgent()
    again = replace(low[0], uid="again", key=low[0].key._replace(name="again"), node=None, gated=True)
    desk, _ = restarted(low[1], again, *written(high, low))

    assert not desk.ledger.nodes.has_room("n1", again.demand)
    assert desk.member("low-1").evicting is Reason.PREEMPTED


@pytest.mark.parametrize(
    "wrong",
    [
        "equal priority",
        "the gang must not preempt",
        "no preemption",
        "of its node",
        "the cluster's own",
        "gives way by being suspended",
        "a node that is gone",
    ],
)
def test_a_plan_that_could_not_be_made_now_is_not_believed(wrong: str) -> None:
    """Whoever wrote it: nobody is asked to leave by it, no seat is held, and it is taken away."""
    owner: Owner | None = None
    priority, policy = 0, Policy()
    high, wish = urgent(), Wish()
    match wrong:
        case "equal priority":
            priority = 10
        case "the gang must not preempt":
            high = [replace(pod, preempts=False) for pod in high]
        case "no preemption":
            policy = Policy(preemption=False)
        case "of its node":
            owner = an_owner("DaemonSet", "low")
        case "the cluster's own":
            priority, high = 2_000_000_001, [replace(pod, priority=2_000_000_002) for pod in high]
        case "gives way by being suspended":
            wish, owner = Wish(give_way=GiveWay.SUSPEND), an_owner("Job", "low")
    low = running("low", "n1", priority=priority)
    low = [
        replace(pod, owner=owner or pod.owner, membership=replace(pod.membership, wish=wish)) for pod in low
    ]
    planned = written(high, low)
    if wrong == "a node that is gone":
        seats = {pod.uid: "n9" for pod in high}
        planned[0] = replace(planned[0], plan=PlanNote("plan", seats, tuple(pod.uid for pod in low)))
    told_before = (ev.OwnerSeen(traits_of(owner)),) if owner else ()
    desk, effects = restarted(*low, *planned, policy=policy, told_before=told_before)

    assert asked(effects) == set()
    assert desk.ledger.holds() == 0
    assert [effect.seats for effect in told(effects, WritePlan)] == [{}]


def test_a_borrower_is_asked_on() -> None:
    """Guaranteed room that was being taken back goes on being taken back, whatever the borrower's priority."""
    gpu = "nvidia.com/gpu"
    policy = Policy(shares={"default": Share(guaranteed=((gpu, 2),))})
    lent = running("low", "n1", priority=99, namespace="lodger")
    _, effects = restarted(*lent, *written(urgent(), lent), policy=policy)

    assert asked(effects) == {"low-0", "low-1"}


@pytest.mark.parametrize("priority", [1, 99])
def test_who_stays_within_his_guarantee_is_not_asked_on(priority: int) -> None:
    """A plan against a namespace that uses no more than what is guaranteed to it is made anew, whatever the
    priorities.
    """
    gpu = "nvidia.com/gpu"
    policy = Policy(shares={name: Share(guaranteed=((gpu, 2),)) for name in ("default", "lodger")})
    kept = running("low", "n1", priority=priority, namespace="lodger")
    _, effects = restarted(*kept, *written(urgent(), kept), policy=policy)

    assert asked(effects) == set()


def test_a_restart_begins_the_cool_down_anew() -> None:
    """Others are asked to leave for it already: as long after that as always nobody else is."""
    low, high = running("low", "n1"), urgent()
    desk, _ = restarted(*low, *written(high, low))
    assert desk.record("urgent").plan is not None
    assert desk.record("urgent").preemption.at == desk.now
