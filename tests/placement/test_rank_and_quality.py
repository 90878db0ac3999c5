"""Scores for kube-scheduler, and figures about placements."""

import numpy as np
import pytest

from scheduler.placement import planner
from scheduler.placement.scoring import fragmentation
from tests.placement.support.asking import POLICY, place
from tests.support.builders import GPU, a_cluster, a_demand, a_gang, a_node, a_role, a_snapshot, with_free

NODES = with_free(
    a_cluster(racks=2, nodes=2, gpu=8), GPU, {"a0-r0-n0": 1, "a0-r0-n1": 8, "a0-r1-n0": 3, "a0-r1-n1": 0}
)
EVERY = np.ones(4, dtype=bool)


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        ("pack", ["a0-r0-n0", "a0-r1-n0", "a0-r0-n1"]),
        ("spread", ["a0-r0-n0", "a0-r0-n1", "a0-r1-n0"]),
    ],
)
def test_scores_follow_the_strategy(strategy, order):
    """The best node has 1, the others are spread evenly from 0.9 to 0, and who cannot hold it has none."""
    mask, scores = planner.rank(NODES, a_gang(gpu=1, strategy=strategy), POLICY, EVERY)

    assert mask.tolist() == [True, True, True, False]
    assert [NODES.names[row] for row in np.argsort(-scores, kind="stable")[:3]] == order
    assert sorted(scores[mask].tolist()) == [0.0, 0.9, 1.0]


@pytest.mark.parametrize(
    ("fitting", "expected"), [(0, []), (1, [1.0]), (2, [1.0, 0.0]), (4, [1.0, 0.9, 0.45, 0.0])]
)
def test_few_candidates(fitting, expected):
    """One candidate has 1, two have 1 and 0, none is no error."""
    candidates = np.arange(4) < fitting
    mask, scores = planner.rank(a_cluster(nodes=4), a_gang(), POLICY, candidates)

    np.testing.assert_array_equal(mask, candidates)
    np.testing.assert_allclose(scores[:fitting], expected)


def test_unknown_level_leaves_nobody():
    """A level that nobody configured leaves no candidate."""
    mask, scores = planner.rank(NODES, a_gang(level="row"), POLICY, EVERY)

    assert not mask.any()
    assert not scores.any()


def test_rank_without_members():
    """A gang without members has no candidates."""
    assert not planner.rank(NODES, a_gang(0), POLICY, EVERY)[0].any()


def test_spans():
    """Quality tells the domains spanned at each level that nodes have, and the fewest in the empty cluster."""
    snapshot = with_free(
        a_cluster(racks=3, nodes=2, gpu=4), GPU, {f"a0-r{r}-n{n}": 2 for r in range(3) for n in range(2)}
    )

    assert place(snapshot, a_gang(8, gpu=1)).quality.spans == {"host": (4, 2), "rack": (2, 1), "area": (1, 1)}


def test_spans_of_roles():
    """Of several demands the fewest is a lower bound that counts what they need together."""
    snapshot = a_cluster(racks=2, nodes=2, cpu=8)
    roles = [a_role("a", 2, cpu=6), a_role("b", 4, cpu=2)]

    assert place(snapshot, a_gang(roles=roles)).quality.spans == {
        "host": (3, 3),
        "rack": (2, 2),
        "area": (1, 1),
    }


def test_levels_that_no_node_has_are_left_out():
    """A level without any domain has no span."""
    assert place(a_snapshot([a_node()]), a_gang(cpu=1)).quality.spans == {"host": (1, 1)}


def test_alignment():
    """Alignment is the mean cosine before each member sat down."""
    snapshot = a_snapshot([a_node(cpu=4, memory=4)])

    assert place(snapshot, a_gang(1, cpu=1, memory=1)).quality.alignment == pytest.approx(1)
    assert place(snapshot, a_gang(1, cpu=1)).quality.alignment == pytest.approx(0.5**0.5)
    # first (1, 1) · (1, 0), then (1/2, 1) · (1, 0)
    expected = (0.5**0.5 + 0.5 / 1.25**0.5) / 2
    assert place(snapshot, a_gang(2, cpu=2)).quality.alignment == pytest.approx(expected)


def test_nobody_seated_has_no_quality():
    """A placement without seats has nothing to measure."""
    assert place(NODES, a_gang(0)).quality.spans == {}


class TestFragmentation:
    def test_share_that_the_demands_cannot_use(self):
        """The mean over the demands of free devices on nodes that cannot hold them."""
        # free: 1, 8, 3, 0
        assert fragmentation(NODES, [a_demand(gpu=1)]) == {GPU: 0.0}
        assert fragmentation(NODES, [a_demand(gpu=2)])[GPU] == pytest.approx(1 / 12)
        assert fragmentation(NODES, [a_demand(gpu=1), a_demand(gpu=4)])[GPU] == pytest.approx(
            (0 + 4 / 12) / 2
        )

    def test_other_room_counts(self):
        """Devices on a node whose CPU is used up are of no use."""
        snapshot = a_snapshot([a_node("a", gpu=4), a_node("b", gpu=4)], used={"a": a_demand(cpu=32)})

        assert fragmentation(snapshot, [a_demand(cpu=1, gpu=1)]) == {GPU: 0.5}

    def test_nobody_asks_or_nothing_is_free(self):
        """Without demands for it, or without any left, nothing is broken up."""
        full = with_free(NODES, GPU, dict.fromkeys(NODES.names, 0))

        assert fragmentation(NODES, [a_demand(cpu=1)]) == {GPU: 0.0}
        assert fragmentation(full, [a_demand(gpu=1)]) == {GPU: 0.0}
        assert fragmentation(a_cluster(), []) == {}
