"""A cordon means one thing to the planner and to the memory, and what we did not pin we do not evict."""

import pytest

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.demand import Demand, Operator, Requirement, Term, Toleration
from scheduler.model.effects import Effect, Evict, Ungate
from scheduler.model.policy import Policy
from scheduler.model.workload import Owner, OwnerTraits, Pin, Pod, PodKey, SeatNote, Uid
from tests.engine.support.cast import a_membership

CORDON = "node.kubernetes.io/unschedulable"
TOLERATIONS = {
    "the taint by its key": (Toleration(CORDON, exists=True), True),
    "the taint, Equal as by default": (Toleration(CORDON, effect="NoSchedule"), True),
    "everything": (Toleration(exists=True), True),
    "another effect of it": (Toleration(CORDON, exists=True, effect="NoExecute"), False),
    "another value of it": (Toleration(CORDON, value="x"), False),
}
NODE = Node("n1", (("nvidia.com/gpu", 8), ("pods", 110)))
JOB = Owner("Job", "train", "job-1", "batch/v1")


def a_learner(number: int, *tolerations: Toleration, owner: Owner | None = None) -> Pod:
    return Pod(
        uid=Uid(f"u{number}"),
        key=PodKey("default", f"g-{number}"),
        demand=Demand((("nvidia.com/gpu", 1), ("pods", 1)), tolerations=tolerations),
        scheduler="gangwright",
        gated=True,
        membership=a_membership("g", 2),
        owner=owner,
    )


def an_engine(*events: ev.Event) -> Engine:
    engine = Engine(Policy())
    engine.observe([*events, ev.Synced(), ev.TookOver()], 0.0)
    return engine


def settled(engine: Engine, now: float = 1.0, turns: int = 20) -> list[Effect]:
    """Everything that is done when each effect comes true; ends, whatever the engine thinks."""
    done: list[Effect] = []
    for _ in range(turns):
        question = engine.ask(now)
        effects = [] if question is None else engine.settle(question, engine.answer(question), now)
        while effects:
            done += effects
            effects = engine.observe([ev.EffectDone(effect) for effect in effects], now)
    assert engine.ask(now) is None, "the engine asks without end"
    return done


@pytest.mark.parametrize("case", TOLERATIONS)
def test_who_tolerates_a_cordon_is_seated_on_a_cordoned_node(case: str):
    """Planner and memory read a toleration as kube-scheduler does: seated, and left there; or not seated at all."""
    toleration, seated = TOLERATIONS[case]
    cordoned = Node(NODE.name, NODE.capacity, schedulable=False)
    pods = [ev.PodSeen(a_learner(i, toleration)) for i in range(2)]
    engine = an_engine(ev.NodeSeen(cordoned), *pods)

    done = settled(engine)

    assert [type(e) for e in done].count(Ungate) == (2 if seated else 0)
    assert engine.ledger.holds() == (2 if seated else 0)


@pytest.mark.parametrize("pinned_by_us", [True, False])
def test_only_what_we_pinned_is_evicted(pinned_by_us: bool):
    """A Job's pod that its owner ties to one node and that we only nominated keeps its life when the node is
    cordoned.
    """
    own = (Term(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)),)
    pod = Pod(
        uid=Uid("u0"),
        key=PodKey("default", "train-0"),
        demand=Demand((("nvidia.com/gpu", 1), ("pods", 1)), constraints=(own,)),
        scheduler="gangwright",
        affinity=own,
        pinned="n1",
        seat=SeatNote("n1", "p", pin=pinned_by_us),
        nominated="n1",
        owner=JOB,
        membership=a_membership("g", 1, pin=Pin.AUTO),
    )
    traits = OwnerTraits(JOB.uid, remakes_freely=pinned_by_us)
    engine = an_engine(ev.NodeSeen(NODE), ev.OwnerSeen(traits), ev.PodSeen(pod))

    done = engine.observe([ev.NodeSeen(Node(NODE.name, NODE.capacity, schedulable=False))], 1.0)

    assert [type(effect) for effect in done].count(Evict) == (1 if pinned_by_us else 0)
