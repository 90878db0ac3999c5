"""Gangs that are planned at the same time, and questions that somebody else may ask meanwhile."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import scheduler.engine.engine as door
from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.calls import FilterCall
from scheduler.model.effects import Effect, Ungate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.workload import Phase, Pod
from tests.builders import a_node
from tests.engine.cast import a_gang_of_pods, a_pod, an_owner


def runs(number: int) -> Pod:
    """A pod of one device that somebody makes again."""
    (pod,) = a_gang_of_pods(f"runs-{number}", 1, gpu=1, owner=an_owner("ReplicaSet", "crew"))
    return replace(pod, gated=False, node="n0", phase=Phase.RUNNING, bound_at=1.0)


def an_engine(gpu: int, policy: Policy, now: float, *pods: Pod) -> Engine:
    engine = Engine(policy)
    engine.observe(
        [ev.NodeSeen(a_node("n0", gpu=gpu)), *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], now
    )
    return engine


def planned(engine: Engine, now: float) -> Iterator[Effect]:
    while (question := engine.ask(now)) is not None:
        yield from engine.settle(question, engine.answer(question), now)


def test_who_waits_for_others_to_leave_topples_no_plan() -> None:
    """Two have room and two more will, once others have left: the first are let go at once, and the second stay
    where they are.
    """
    leaving = [replace(runs(number), deleting=True) for number in range(2)]
    first, second = (a_gang_of_pods(name, 2, gpu=1, created=at) for name, at in (("a", 10.0), ("b", 11.0)))
    engine = an_engine(4, Policy(), 20.0, *leaving, *first, *second)
    todo, done = list(planned(engine, 20.0)), []
    while todo and len(done) < 40:
        done.append(todo.pop(0))
        todo += [*engine.observe([ev.EffectDone(done[-1])], 20.0), *planned(engine, 20.0)]

    assert sorted(effect.key.name for effect in done if isinstance(effect, Ungate)) == ["a-0", "a-1"]
    assert [effect.gang.name for effect in done if isinstance(effect, WritePlan)] == ["a"]


def test_a_question_that_a_verb_cannot_answer_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang too large to be planned while kube-scheduler waits is asked about all the same, and makes its room."""
    urgent = a_gang_of_pods("urgent", 2, gpu=1, created=10.0, priority=100)
    side = a_pod("side", gated=False, gpu=8, created=9.0, cpu=1)
    engine = an_engine(4, Policy(), 20.0, *map(runs, range(4)), *urgent, side)
    question = engine.ask(20.0)
    assert question is not None
    engine.settle(question, engine.answer(question), 20.0)

    monkeypatch.setattr(door, "INLINE_LIMIT", 1)
    engine.filter(FilterCall(side.uid, side.key, side.scheduler, False, ("n0",)), 20.0)
    list(planned(engine, 20.0))

    assert [key.name for key in engine.ledger.freeing] == ["urgent"]


def test_nobody_is_passed_over_when_all_come_of_age() -> None:
    """Between two questions of a pass every place in the queue gets another name; who was not looked at yet still
    is.
    """
    sizes = {f"g{number}": 16 - number for number in range(8)} | {"tiny": 1}
    waiting = [pod for name, gpu in sizes.items() for pod in a_gang_of_pods(name, 1, gpu=gpu, created=1000.0)]
    engine = an_engine(
        16, Policy(age_limit=5000.0, backfill=Backfill.FREE), 1050.0, *map(runs, range(16)), *waiting
    )
    for now in range(1050, 6000):
        engine.observe([ev.Tick()], float(now))
        list(planned(engine, float(now)))
    engine.observe([ev.PodSeen(replace(runs(0), phase=Phase.SUCCEEDED))], 5999.9)
    for now in (5999.9, 5999.95):
        question = engine.ask(5999.9)
        assert question is not None
        engine.settle(question, engine.answer(question), now)

    list(planned(engine, 6000.1))
    engine.observe([ev.Tick()], 6000.2)
    list(planned(engine, 6000.2))

    seated = {key.name for key, record in engine.ledger.roll.gangs.items() if record.plan is not None}
    assert seated == {"tiny"}
