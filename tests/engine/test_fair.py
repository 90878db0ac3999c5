"""The order `fair` with more gangs than are sorted at once: turns change together, and nobody is asked for nothing."""

from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.engine.queue_order import SORTED_AT_ONCE
from scheduler.ledger.pending_queue import REORDER
from scheduler.model import events as ev
from scheduler.model.policy import Policy
from scheduler.model.queueing import Order, Share
from scheduler.model.workload import Phase, Pod
from tests.engine.support.cast import a_gang_of_pods
from tests.support.builders import a_node

GPUS = 8
NODES = 3
CROWD = SORTED_AT_ONCE + 100


def running(number: int) -> Pod:
    (pod,) = a_gang_of_pods(f"runs-{number}", 1, namespace="rich", gpu=1)
    return replace(pod, gated=False, node=f"n{number // GPUS}", phase=Phase.RUNNING, bound_at=1.0)


def crowd() -> Engine:
    """A full cluster of one team; two others wait, each with hundreds of gangs of two GPUs."""
    engine = Engine(Policy(order=Order.FAIR))
    waiting = [
        pod
        for number in range(CROWD)
        for pod in a_gang_of_pods(
            f"g{number:03}", 1, namespace=("first", "second")[number % 2], gpu=2, created=float(number)
        )
    ]
    pods = [*(running(number) for number in range(NODES * GPUS)), *waiting]
    nodes = [ev.NodeSeen(a_node(f"n{number}", gpu=GPUS)) for number in range(NODES)]
    engine.observe([*nodes, *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], 2_000.0)
    engine.plan(2_000.0)
    return engine


def ends(engine: Engine, *numbers: int, now: float) -> int:
    """These end; how many questions that brings."""
    ended = [ev.PodSeen(replace(running(number), phase=Phase.SUCCEEDED)) for number in numbers]
    engine.observe(ended, now)
    asked = 0
    while (question := engine.ask(now)) is not None:
        asked += 1
        engine.settle(question, engine.answer(question), now)
    return asked


def seated(engine: Engine) -> list[str]:
    return sorted(
        record.key.namespace for record in engine.ledger.registry.gangs.values() if record.plan is not None
    )


@pytest.mark.slow
def test_who_was_seated_does_not_send_all_others_of_its_team_to_the_end() -> None:
    """A gang gets room, and so its team has more: every other gang's turn changes with the next sorting, not one by
    one.
    """
    engine = crowd()

    for turn in range(3):
        assert ends(engine, 2 * turn, 2 * turn + 1, now=2_100.0 + 10 * turn) < 20
    assert seated(engine) == ["first", "first", "second"]


def test_room_of_one_moment_goes_by_the_turns_of_that_moment() -> None:
    """Equals are seated in the order in which they came, however many at once."""
    engine = crowd()
    ends(engine, *range(GPUS), now=2_100.0)

    assert seated(engine) == ["first", "first", "second", "second"]


@pytest.mark.slow
def test_new_weights_count_at_once() -> None:
    """Nobody's use has changed, but what it is held against: the team of little weight goes behind the other."""
    engine = crowd()
    ends(engine, 0, 1, 2, 3, now=2_100.0)
    assert seated(engine) == ["first", "second"]

    engine.plan(2_100.0 + REORDER)
    assert engine.ledger.pending.queue()[0].key.namespace == "first"
    engine.observe([ev.PolicyChanged(replace(engine.policy, shares={"first": Share(weight=0.1)}))], 2_106.0)
    engine.plan(2_120.0)
    assert engine.ledger.pending.queue()[0].key.namespace == "second"
