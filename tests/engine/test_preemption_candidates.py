"""Running pods that a gang may preempt: found in portions, they are those that are found at once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.engine import Engine, preemption_candidates
from scheduler.engine import engine as engine_module
from scheduler.engine.preemption_candidates import EXPLAIN, PREEMPT, PreemptionCandidates
from scheduler.model import events as ev
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import By, Unit
from scheduler.model.verbs import FilterCall, Refused
from scheduler.model.workload import Phase, Pod
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.support.builders import a_node

NOW = 100.0
URGENT = 100


def running(name: str, node: str, **each: object) -> list[Pod]:
    pods = a_gang_of_pods(name, 2, gpu=1, **each)
    return [replace(pod, node=node, gated=False, phase=Phase.RUNNING, bound_at=1.0) for pod in pods]


def a_cluster() -> Engine:
    """Gangs on two nodes, pods of another scheduler, and a gang that waits for them."""
    engine = Engine(Policy())
    pods = [
        *running("one", "n1"),
        *running("two", "n1", priority=5),
        *running("three", "n2"),
        *running("above", "n2", priority=2 * URGENT),
        *(
            replace(a_pod(f"foreign-{n}", gpu=1, node="n2"), scheduler="other", membership=None)
            for n in range(2)
        ),
        *a_gang_of_pods("urgent", 2, gpu=4, priority=URGENT),
    ]
    events = [ev.NodeSeen(a_node(name, gpu=6)) for name in ("n1", "n2")]
    engine.observe([*events, *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], NOW)
    return engine


def ends(engine: Engine) -> None:
    pod = replace(running("one", "n1")[0], phase=Phase.SUCCEEDED)
    engine.observe([ev.PodSeen(pod)], NOW)


def is_deleted(engine: Engine) -> None:
    engine.observe([ev.PodGone(pod.uid, pod.key) for pod in running("three", "n2")], NOW)


def foreign_ends(engine: Engine) -> None:
    pod = a_pod("foreign-0", gpu=1, node="n2")
    engine.observe([ev.PodGone(pod.uid, pod.key)], NOW)


def comes(engine: Engine) -> None:
    engine.observe(map(ev.PodSeen, running("late", "n1")), NOW)


def node_goes(engine: Engine) -> None:
    engine.observe([ev.NodeGone("n1")], NOW)


def node_comes(engine: Engine) -> None:
    engine.observe([ev.NodeSeen(a_node("n0", gpu=1))], NOW)


def resource_comes(engine: Engine) -> None:
    engine.observe([ev.NodeSeen(a_node("n0", more={"example.com/fpga": 1}))], NOW)


def said(units: tuple[Unit, ...]) -> list[object]:
    return [
        (u.gang, u.kind, u.uids, u.rows.tolist(), u.uses.tolist(), u.priority, u.lost, u.way, u.by)
        for u in units
    ]


def found(engine: Engine, purpose: str = PREEMPT) -> list[object]:
    record, may_take = asking(engine)
    return said(engine.cycle.candidates.units(may_take, NOW, record.wanted, purpose))


def asking(engine: Engine):
    (record,) = (r for r in engine.ledger.registry.gangs.values() if r.key.name == "urgent")
    may_take = engine.cycle.preemption.may_take(record, record.wanted, NOW)
    assert may_take is not None
    return record, may_take


@pytest.mark.parametrize(
    "happens", [ends, is_deleted, foreign_ends, comes, node_goes, node_comes, resource_comes]
)
@pytest.mark.parametrize("portions", range(0, 9, 2))
def test_what_happens_between_two_portions_counts(
    monkeypatch, happens: Callable[[Engine], None], portions: int
) -> None:
    """Whatever was found before is found again where it has changed."""
    monkeypatch.setattr(preemption_candidates, "PORTION", 1)
    engine, whole = a_cluster(), a_cluster()
    record, may_take = asking(engine)
    steps = engine.cycle.candidates.gather(may_take, NOW, record.wanted)
    for _ in range(portions):
        next(steps, None)
    for each in (engine, whole):
        happens(each)
    list(steps)
    assert found(engine) == found(whole)
    assert all(by is By.ORDER for *_, by in found(whole))


def test_units_are_gathered_for_one_gang_and_one_purpose(monkeypatch) -> None:
    """Another gang, or another question about the same gang, finds its own."""
    monkeypatch.setattr(preemption_candidates, "PORTION", 1)
    engine = a_cluster()
    record, may_take = asking(engine)
    list(engine.cycle.candidates.gather(may_take, NOW, record.wanted))
    for gang, purpose in ((replace(record.wanted), PREEMPT), (record.wanted, EXPLAIN)):
        assert engine.cycle.candidates.units(lambda *_: None, NOW, gang, purpose) == ()


def test_a_question_needs_little_after_the_portions(monkeypatch) -> None:
    """`prepare` reads the pods of every gang; the question, and what is said about the gang, read none of them again."""
    monkeypatch.setattr(preemption_candidates, "PORTION", 1)
    engine = a_cluster()
    read = []
    units = PreemptionCandidates._units
    monkeypatch.setattr(
        PreemptionCandidates,
        "_units",
        lambda self, record, *more: read.append(record.key.name) or units(self, record, *more),
    )
    question = engine.ask(NOW)
    assert question is not None
    engine.settle(question, engine.answer(question), NOW)
    assert len(list(engine.prepare(NOW))) > 5
    assert sorted(read) == ["above", "one", "three", "two", "urgent"]
    read.clear()
    question = engine.ask(NOW)
    assert question is not None
    assert question.making is not None
    assert len(question.making.units) == 5
    assert read == []

    list(engine.prepare_inquiry(question.gang.key, NOW))
    read.clear()
    asked = engine.inquire(question.gang.key, NOW)
    assert asked is not None
    assert len(asked.lower) == 5
    assert read == []


@pytest.mark.parametrize("pods", [4, 1000])
def test_a_call_leaves_many_pods_to_the_planning_pass(monkeypatch, pods: int) -> None:
    """With few, it chooses the victims itself."""
    monkeypatch.setattr(engine_module, "INLINE_PODS", pods)
    engine = a_cluster()
    alone = a_pod("alone", gpu=5, gated=False, priority=URGENT + 1)
    engine.observe([ev.PodGone(pod.uid, pod.key) for pod in a_gang_of_pods("urgent", 2)], NOW)
    engine.observe([ev.PodSeen(alone)], NOW)
    call = FilterCall(alone.uid, alone.key, "gangwright", native_group=False, candidates=("n1", "n2"))
    answer, _ = engine.filter(call, NOW)
    assert isinstance(answer, Refused)
    assert bool(engine.ledger.freeing) is (pods == 1000)
    engine.plan(NOW)
    assert engine.ledger.freeing


def test_what_a_question_found_is_forgotten_in_portions(monkeypatch) -> None:
    """Not all at once when the question is answered."""
    monkeypatch.setattr(preemption_candidates, "RELEASED", 2)
    engine = a_cluster()
    record, may_take = asking(engine)
    candidates = engine.cycle.candidates
    list(candidates.gather(may_take, NOW, record.wanted))
    candidates.units(may_take, NOW, record.wanted)
    assert len(list(candidates.release())) == 4
    assert list(candidates.release()) == []


def one_that_asks(count: int = 20) -> Engine:
    """A gang that waits for what running pods have."""
    engine = Engine(Policy())
    runs = [
        replace(pod, gated=False, node="n0", phase=Phase.RUNNING, bound_at=1.0)
        for number in range(count)
        for pod in a_gang_of_pods(f"run-{number}", 1, gpu=1)
    ]
    urgent = [replace(pod, priority=100) for pod in a_gang_of_pods("urgent", 2, gpu=1)]
    nodes = [ev.NodeSeen(a_node("n0", gpu=count))]
    engine.observe([*nodes, *map(ev.PodSeen, runs), ev.Synced(), ev.TookOver()], 0.0)
    engine.observe(map(ev.PodSeen, urgent), 1.0)
    question = engine.ask(1.0)
    assert question is not None
    engine.settle(question, engine.answer(question), 1.0)
    assert engine.cycle.needy is not None
    return engine


def test_running_pods_are_read_in_portions_again_after_all_gangs_were_reconciled(monkeypatch):
    """The cache was stale for a moment between the portions and the question: the question still finds little to do."""
    monkeypatch.setattr(preemption_candidates, "PORTION", 6)
    engine = one_that_asks()
    assert sum(1 for _ in engine.prepare(1.0)) > 3
    engine.observe([ev.LostSight()], 2.0)
    engine.observe([ev.SawAgain()], 3.0)
    while engine.cycle.needy is None and (question := engine.ask(3.0)) is not None:
        engine.settle(question, engine.answer(question), 3.0)
    for _ in engine.prepare(3.0):
        pass
    read = []
    real = PreemptionCandidates._units
    monkeypatch.setattr(PreemptionCandidates, "_units", lambda *args: read.append(args[1].key) or real(*args))
    question = engine.ask(3.0)
    assert question is not None
    assert question.making is not None
    assert len(question.making.units) == 20
    assert read == []


def test_what_an_earlier_rule_allowed_is_not_what_the_present_one_allows():
    """Units that no question used are not those of a later question by the same gang."""
    engine = one_that_asks()
    candidates, gang = engine.cycle.candidates, engine.cycle.needy.wanted
    for _ in candidates.gather(lambda _record, _pod: None, 1.0, gang):
        pass
    for _ in candidates.gather(lambda record, _pod: By.ORDER if record else None, 1000.0, gang):
        pass
    found = candidates.units(lambda record, _pod: By.ORDER if record else None, 1000.0, gang)
    assert len([unit for unit in found if unit.gang != gang.key]) == 20
