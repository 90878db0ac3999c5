"""Whatever people and whoever runs the cluster change meanwhile, the invariants hold, and all comes to rest.

GANGWRIGHT_STEPS sets how many steps are taken, as for `test_invariants`.
"""

import os

import pytest

from tests.engine.support.upheavals import EVERYTHING, Upheavals, walk

STEPS = int(os.environ.get("GANGWRIGHT_STEPS", "20000"))
WALK = 300
"""Steps of one walk."""

SHARE = 8
"""One step in so many of those of `test_invariants`: a walk of these costs more."""


@pytest.mark.slow
@pytest.mark.timeout(0 if STEPS > 40000 else 600)
@pytest.mark.parametrize("part", range(2))
def test_invariants_hold_in_upheavals(part: int) -> None:
    """No walk breaks an invariant, and nobody waits beside room; the seed in the message walks it again."""
    for seed in range(part, max(2, STEPS // SHARE // WALK), 2):
        try:
            walk(seed, WALK)
        except Exception as error:
            raise AssertionError(f"walk({seed}, {WALK}) ends in: {error}") from error


def test_walks_go_somewhere() -> None:
    """Every act is one of the machine; seats are bound, victims leave, and people are told why gangs wait."""
    assert all(callable(getattr(Upheavals, name)) for name in EVERYTHING)
    ends = [walk(seed, 200).world.api for seed in (3, 5, 6)]

    assert sum(len(api.binds) for api in ends) > 15
    assert any(api.evicted for api in ends)
    assert len({one.reason for api in ends for _, one in api.announced}) > 8
