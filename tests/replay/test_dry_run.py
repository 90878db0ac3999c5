"""What a document foretells of pods that are not there happens when they come.

The engine that is asked lives in a world in which gangs came, gave way and ended for minutes; the document is taken of
that world as `gangwright snapshot` takes it. It does not hold what a running service alone remembers, so it is taken
when nobody is on the way out and no gang waits out a time.
"""

from collections import Counter

import pytest

from scheduler.ledger import conditions
from scheduler.model.events import PodSeen
from scheduler.model.workload import Pod
from scheduler.replay import decode, document, encode, judge
from tests.engine.support.situations import a_situation, newcomers, thought_of
from tests.engine.support.world import World
from tests.engine.test_dry_run import happened, seats_of

CASES = 120
EACH = 40
MANY = 300
"""Cases of which one in a hundred may differ: enough for three."""
PAUSE = 50.0
LOOKED = 3.0
"""Seconds after which a service that begins has looked at everybody who waits."""


def is_calm(world: World) -> bool:
    """Nothing is under way that a document would not tell of."""
    ledger, now = world.engine.ledger, world.now
    waits = (
        now < max(record.backoff.not_before, record.preemption.at + world.policy.preemption_cooldown)
        for record in ledger.registry.gangs.values()
    )
    return not ledger.freeing and not ledger.deleted and not any(waits)


def a_calm_situation(seed: int) -> World | None:
    """A situation in which nothing is under way any more; None where it does not come to that."""
    world = a_situation(seed)
    for _ in range(6):
        if is_calm(world):
            return world
        world.settle(PAUSE)
    return None


def judged(world: World, pods: list[Pod]) -> tuple[object, ...]:
    """How it ends, in the judgement of a document that was written and read again."""
    found = decode(encode(document(world.api.listing(), world.policy, world.now, "0")))
    judgement = judge(found, map(PodSeen, pods))
    key, names = pods[0].membership.gang, {pod.uid: pod.key.name for pod in pods}
    seats, room = judgement.seats(key), judgement.room(key)
    if seats is not None:
        return ("seated", seats_of(names, seats.seats))
    if room is not None:
        return ("makes room", seats_of(names, room.seats), sorted(room.uids))
    record, answer = judgement.engine.ledger.registry.gangs[key], judgement.decision(key)
    return (conditions.reason(record), getattr(answer, "ceiling", None))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, EACH))
def test_a_document_agrees_with_a_service_that_has_read_the_same(first):
    """Seats, victims and reasons are those that a service decides on which began in that cluster."""
    wrong, ends = [], Counter()
    for seed in range(first, first + EACH):
        world = a_calm_situation(seed)
        if world is None:
            continue
        world.crash()
        world.settle(LOOKED)
        if not is_calm(world):
            continue
        said = judged(world, thought_of(newcomers(seed), world.now))
        came = happened(world, newcomers(seed))
        ends[came[0]] += 1
        if said != came[: len(said)]:
            wrong.append((seed, said, came))

    assert wrong == []
    assert ends.total() > 0.9 * EACH
    assert {"seated", "makes room"} <= ends.keys()


@pytest.mark.slow
def test_a_document_agrees_with_a_service_that_ran_all_the_time():
    """Whether the gang is seated, makes room or waits, and why, is as a service decides that has seen it all.

    In all but one of a hundred cases: room that was reserved earlier may lie on other nodes than if it were reserved
    now.
    """
    wrong = []
    for seed in range(MANY):
        world = a_calm_situation(seed)
        if world is None:
            continue
        world.plan()
        said = judged(world, thought_of(newcomers(seed), world.now))
        came = happened(world, newcomers(seed))
        if said[0] != came[0]:
            wrong.append((seed, said, came))

    assert len(wrong) <= MANY // 100, wrong
