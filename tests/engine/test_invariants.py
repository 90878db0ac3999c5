"""Whatever happens, in whatever order: the invariants hold after every step, and all comes to rest in the end.

GANGWRIGHT_STEPS sets how many steps are taken; nothing here is left to chance, so a run of one length is always
the same run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Stage
from hypothesis.stateful import run_state_machine_as_test

from scheduler.engine import SCORES_KEPT
from tests.engine.support import accountant
from tests.engine.support.cast import a_gang_of_pods, an_owner
from tests.engine.support.machine import Gangs
from tests.engine.support.walks import told_by_a_walk, walk
from tests.engine.support.wishes import POLICY
from tests.engine.support.world import World
from tests.support.builders import a_node

STEPS = int(os.environ.get("GANGWRIGHT_STEPS", "20000"))
IN_A_ROW = 50
WALK = 200
"""Steps of one short story, and of one long walk."""


@pytest.mark.slow
@pytest.mark.timeout(0 if STEPS > 40000 else 600)
def test_invariants_hold_in_short_stories() -> None:
    """No sequence of events, faults, crashes and questions breaks an invariant; hypothesis tells the shortest that
    does.
    """
    run_state_machine_as_test(
        Gangs,
        settings=settings(
            max_examples=max(1, STEPS // 2 // IN_A_ROW),
            stateful_step_count=IN_A_ROW,
            derandomize=True,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=[Stage.generate, Stage.shrink],
        ),
    )


@pytest.mark.slow
@pytest.mark.timeout(0 if STEPS > 40000 else 600)
@pytest.mark.parametrize("part", range(4))
def test_invariants_hold_in_long_walks(part: int) -> None:
    """No long walk breaks an invariant; the seed in the message walks it again."""
    for seed in range(part, max(4, STEPS // 2 // WALK), 4):
        try:
            walk(seed, WALK)
        except Exception as error:
            raise AssertionError(f"walk({seed}, {WALK}) ends in: {error}") from error


@pytest.mark.slow
def test_equal_events_give_equal_effects_in_every_process() -> None:
    """I13: the order in which a process keeps its sets decides nothing; compared across hash seeds."""
    digests = {
        subprocess.run(
            [sys.executable, "-m", "tests.engine.support.transcript", "7", "300"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_a_walk_can_be_walked_again() -> None:
    """The seed that a failure names leads to the same end."""
    assert told_by_a_walk(11, 100) == told_by_a_walk(11, 100)
    assert len(told_by_a_walk(11, 100)) > 10


@pytest.mark.slow
def test_gangs_that_come_and_go_leave_nothing_behind() -> None:
    """I14: a thousand gangs later the ledger is as large as on its first day."""
    world = World([a_node("n0", gpu=8), a_node("n1", gpu=8)], POLICY)
    for number in range(1000):
        kind = number % 4
        owner = an_owner("Job", f"job-{number}") if kind > 1 else None
        pods = a_gang_of_pods(f"g{number}", 2 + number % 3, gpu=1, gated=kind != 1, owner=owner)
        world.submit(pods)
        world.quiet()
        if kind == 3:
            world.crash()
        for pod in pods:
            world.api.remove(pod.key)
    world.settle(1.0)
    assert set(accountant.residue(world.engine).values()) == {0}
    assert world.engine.ledger.next_deadline() == float("inf")
    assert len(world.engine._scores) <= SCORES_KEPT
