"""Answers that the engine gives without a question, compared with those of the planner."""

from collections.abc import Iterator

from scheduler.engine import Engine
from scheduler.engine.planning import Question, decide
from scheduler.model.decision import Wait
from scheduler.model.workload import Gang
from scheduler.placement import reservation


def untrue_answers(engine: Engine) -> list[tuple[Gang, Wait, object]]:
    """Each gang with the answer that is known for its shape, and the planner's, where they differ."""
    return [(gang, known, true) for gang, known, true in _answers(engine) if known != true]


def _answers(engine: Engine) -> Iterator[tuple[Gang, Wait, object]]:
    standing, snapshot = engine.cycle._standing.kept, engine.snapshot()
    if standing is None or not standing.is_of(snapshot):
        return
    for number, known in standing.free(snapshot).items():
        gang = standing._shapes[number].gang
        yield gang, known, decide(Question(gang, snapshot, {}, None, 0), engine.policy)
    fence, reserved = engine.cycle.head.fence()[0], engine.cycle.head.reserved
    if not fence or reserved is None:
        return
    left = reservation.beside(snapshot, reserved, None)
    for number, known in standing.behind(snapshot, left.free, reserved.key).items():
        gang = standing._shapes[number].gang
        question = Question(gang, left, {}, None, 0, kept=snapshot.free, held_for=reserved.key)
        yield gang, known, decide(question, engine.policy)
