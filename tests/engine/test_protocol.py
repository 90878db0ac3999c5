"""No two gangs block each other: every state of reserving, releasing and backing off is visited."""

import pytest

from tests.engine.support.protocol import Protocol, explore, start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "strangers", "crashes"),
    [
        ((2, 2, 2), 0, 1),
        ((1, 2, 3), 0, 1),
        ((3, 3, 2), 0, 1),
        ((2, 2, 2), 1, 1),
    ],
)
def test_whatever_happens_all_gangs_can_still_end(sizes: tuple[int, ...], strangers: int, crashes: int):
    """Three gangs on three nodes: from every state that crashes, late PATCHes and strangers lead to, all can end."""
    reached, stuck = explore(start(sizes, strangers=strangers, crashes=crashes), Protocol(nodes=3))
    assert reached > 1000
    assert stuck == set()


@pytest.mark.parametrize("whole", [True, False])
def test_without_a_time_limit_two_gangs_block_each_other(whole: bool):
    """Were seats never given back, each could keep a node that the other lacks after one crash: so the visit finds
    such.
    """
    _, stuck = explore(start((2, 2), strangers=0), Protocol(nodes=2, whole=whole, limits=False))
    assert stuck
