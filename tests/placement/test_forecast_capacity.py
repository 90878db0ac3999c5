"""Room counted in members: the same answers as the planner's, for gangs where counting is enough."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.decision import Place
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.forecast_setup import Demands, ForecastCapacity, growth, is_plain, merged, snug
from tests.placement.support.asking import POLICY
from tests.placement.test_properties import books, demands, picture
from tests.support.builders import GPU, a_cluster, a_demand, a_gang, a_role, some_amounts


def a_yard(snapshot, *some) -> ForecastCapacity:
    return ForecastCapacity(Demands(snapshot, some, FeasibilityCache()), snapshot.free)


@pytest.mark.slow
@given(books(), demands(ports=False), st.integers(1, 6))
def test_a_plain_gang_fits_where_enough_members_do(ledger, demand, members):
    """Counting and the planner agree about every plain gang; its seats fit."""
    snapshot = picture(ledger)
    gang = a_gang(roles=[a_role("", members, demand=demand)])
    capacity = a_yard(snapshot, demand)
    decision = planner.decide(snapshot, gang, POLICY)

    assert is_plain(gang)
    assert isinstance(decision, Place) == (capacity.totals[0] >= members)
    if isinstance(decision, Place):
        rows, counts = snug(capacity.units[0], members)
        assert counts.sum() == members
        assert (counts > 0).all()
        assert (counts <= capacity.units[0][rows]).all()
        assert len(set(rows.tolist())) == len(rows) <= max(len(set(decision.seats.values())), 1)


def test_what_counting_cannot_tell():
    """Several roles, surplus, ports, a required level, anchors, bars and other strategies are the planner's."""
    gangs = [
        a_gang(roles=[a_role("a", 1, gpu=1), a_role("b", 1, gpu=2)]),
        a_gang(1, surplus=1, gpu=1),
        a_gang(1, ports=[80]),
        a_gang(1, required=True),
        a_gang(1, anchors=["a0-r0-n0"]),
        a_gang(1, barred=["a0-r0-n0"]),
        a_gang(1, strategy="spread"),
    ]

    assert not any(is_plain(gang) for gang in gangs)
    assert is_plain(a_gang(3, gpu=1))


def test_seats_are_snug():
    """One row that holds all, the tightest of them; else the roomiest, and for the rest a tight one."""
    assert [part.tolist() for part in snug(np.array([8.0, 3.0, 5.0, 3.0]), 3)] == [[1], [3]]
    assert [part.tolist() for part in snug(np.array([4.0, 2.0, 5.0, 3.0]), 7)] == [[2, 1], [5, 2]]
    assert [part.tolist() for part in snug(np.array([1.0, 1.0]), 2)] == [[0, 1], [1, 1]]


def test_an_unknown_resource_is_nowhere():
    """Nobody fits who wants what no node has ever had."""
    assert a_yard(a_cluster(nodes=2, gpu=8), a_demand(more={"example.com/fpga": 1})).totals == [0]


def test_room_is_counted_again_where_it_changed():
    """After a row got other room, counts are those of a new capacity."""
    snapshot = a_cluster(nodes=3, gpu=8)
    capacity = a_yard(snapshot, a_demand(gpu=2), a_demand(gpu=3, cpu=1))
    row = snapshot.free[1] - snapshot.axis.vector(some_amounts(gpu=3))

    capacity.put(np.array([1]), row[None, :])

    assert capacity.units.tolist() == [[4, 2, 4], [2, 1, 2]]
    assert capacity.totals == [10, 5]

    capacity.put(np.array([2, 0]), np.array([row, snapshot.free[0] - snapshot.free[0]]))

    assert capacity.units.tolist() == [[0, 2, 2], [0, 1, 1]]
    assert capacity.totals == [4, 2]
    assert snapshot.free[1, snapshot.axis.index[GPU]] == 8


def test_pods_of_one_row_are_one_entry():
    """Two pods on one node use what both use."""
    rows, uses = merged(np.array([2, 0, 2]), np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 1.0]]))

    assert rows.tolist() == [0, 2]
    assert uses.tolist() == [[2, 0], [4, 6]]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(0, 8)), max_size=9),
    st.integers(1, 3),
    st.integers(0, 4),
)
def test_growth_is_what_is_counted_after_each_departure(pods, gpu, cpu):
    """How many fit after each pod has left in turn: recounted from nothing each time."""
    snapshot = a_cluster(nodes=3, gpu=40, cpu=40)
    demand = a_demand(gpu=gpu, cpu=cpu)
    rows = np.array([row for row, _, _ in pods], dtype=np.int64)
    vectors = [snapshot.axis.vector(some_amounts(gpu=own, cpu=more)) for _, own, more in pods]
    uses = np.array(vectors).reshape(len(pods), len(snapshot.axis))
    free = snapshot.free.copy()
    np.subtract.at(free, rows, uses)
    wants = Demands(snapshot, [demand], FeasibilityCache())

    counted = []
    after = free.copy()
    for row, use in zip(rows, uses, strict=True):
        after[row] += use
        counted.append(ForecastCapacity(wants, after).totals[0])

    assert growth(wants, 0, ForecastCapacity(wants, free), rows, uses).tolist() == counted
    assert ForecastCapacity(wants, replace(snapshot, free=free).free).totals[0] <= min(counted, default=10**9)
