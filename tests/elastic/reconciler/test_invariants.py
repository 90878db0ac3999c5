"""Whatever happens, in whatever order: what the witness checks holds at every effect, and the job trains in the end.

GANGWRIGHT_STEPS sets how many steps are taken; nothing here is left to chance, so a run of one length is always the
same run.
"""

import os

import pytest

from scheduler.elastic.job import Spec
from tests.elastic.reconciler.support.walks import Walk
from tests.elastic.reconciler.support.world import TEMPLATE, World

STEPS = int(os.environ.get("GANGWRIGHT_STEPS", "10000"))
WALK = 200
"""Steps of one walk."""
PARTS = 4


@pytest.mark.slow
@pytest.mark.timeout(0 if STEPS > 40000 else 600)
@pytest.mark.parametrize("part", range(PARTS))
def test_invariants_hold_in_long_walks(part: int) -> None:
    """No walk through losses, crashes and changes of mind breaks an invariant; the seed in the message walks it
    again.
    """
    for seed in range(part, max(PARTS, STEPS // WALK), PARTS):
        try:
            Walk(seed).go(WALK)
        except Exception as error:
            raise AssertionError(f"Walk({seed}).go({WALK}) ends in: {error}") from error


def test_thirty_resizes_in_a_row() -> None:
    """Thirty sizes in a row, each wanted as soon as the one before is there: each is reached, and no step is lost."""
    world = World(Spec(min_workers=1, max_workers=6, template=TEMPLATE))
    sizes = [(place * 5) % 6 + 1 for place in range(1, 31)]
    steps = 0
    for size in sizes:
        world.size(size)
        assert world.run(30, lambda size=size: world.trains(size)), world.status.reason
        assert world.steps() >= steps
        steps = world.steps()

    assert world.status.restarts == 0
    assert all(pod.commit <= world.steps() for pod in world.pods.values())


def test_twenty_wishes_in_twenty_seconds() -> None:
    """Another size is wanted each second: no step is lost, no restart counted, and the last size is reached."""
    world = World(Spec(min_workers=1, max_workers=4, template=TEMPLATE))
    world.size(1)
    assert world.run(30, lambda: world.trains(1))
    for turn in range(20):
        before = world.steps()
        world.size(turn * 3 % 4 + 1)
        world.run(1.0)
        assert world.steps() >= before
    world.size(2)

    assert world.run(60, lambda: world.trains(2)), world.status.reason
    assert world.status.restarts == 0


def test_equal_walks_have_equal_effects() -> None:
    """The same events at the same times give the same effects."""
    first, second = Walk(5), Walk(5)
    first.go(40)
    second.go(40)

    assert first.world.told == second.world.told
