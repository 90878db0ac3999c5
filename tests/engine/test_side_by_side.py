"""Gangs that are planned at the same time, and questions that somebody else may ask meanwhile."""

from dataclasses import replace

import pytest

import scheduler.engine.cycle as door
from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.effects import Ungate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import Preempt
from scheduler.model.queueing import Share
from scheduler.model.verbs import FilterCall
from scheduler.model.workload import PodKey
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.engine.support.stage import an_engine, planned, runs
from tests.support.builders import GPU


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


def _lowered(engine: Engine, most: int) -> None:
    """The ceiling of the namespace is set anew."""
    engine.observe(
        [ev.PolicyChanged(replace(engine.policy, shares={"default": Share(ceiling=((GPU, most),))}))], 20.0
    )


@pytest.mark.parametrize(("most", "seated"), [(4, 4), (3, 3), (2, 2), (1, 0)])
def test_a_ceiling_that_is_lowered_while_a_gang_is_planned_counts(most: int, seated: int) -> None:
    """The answer was made under the one before: members above the quorum wait, or the whole gang does, and it is said
    why.
    """
    gang = a_gang_of_pods("a", 4, quorum=2, gpu=1)
    engine = an_engine(8, Policy(shares={"default": Share(ceiling=((GPU, 4),))}), 20.0, *gang)
    question = engine.ask(20.0)
    assert question is not None
    engine.away = question
    answer = engine.answer(question)
    _lowered(engine, most)
    engine.settle(question, answer, 20.0)
    list(planned(engine, 20.0))
    assert engine.ledger.holds() == seated
    (record,) = engine.ledger.registry.gangs.values()
    assert (record.verdict.decision is None) == (seated > 0)
    if record.verdict.decision is not None:
        assert record.verdict.decision.reason is Reason.QUOTA_EXCEEDED


def test_nobody_leaves_for_a_gang_that_is_above_its_ceiling_by_now() -> None:
    """Whom it would cost was found under a ceiling that has been lowered meanwhile."""
    gang = a_gang_of_pods("a", 2, gpu=1, priority=100, namespace="default", created=10.0)
    others = [replace(runs(number), key=PodKey("lab", f"runs-{number}")) for number in range(2)]
    engine = an_engine(2, Policy(shares={"default": Share(ceiling=((GPU, 4),))}), 20.0, *others, *gang)
    while (question := engine.ask(20.0)) is not None and question.making is None:
        engine.settle(question, engine.answer(question), 20.0)
    assert question is not None
    answer = engine.answer(question)
    assert isinstance(answer, Preempt)
    _lowered(engine, 1)
    engine.settle(question, answer, 20.0)
    list(planned(engine, 20.0))
    assert engine.ledger.freeing == {}
    assert engine.ledger.holds() == 0
