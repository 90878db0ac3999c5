"""Shares of single devices, against books that place one pod after the other, device by device."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.cluster import Devices
from scheduler.model.decision import Place, Reason
from scheduler.placement.shared_devices import held_by, left_by, seated
from tests.placement.support.asking import decide, place, wait
from tests.placement.support.devices import most, put
from tests.support.builders import GPU, a_demand, a_gang, a_node, a_role, a_snapshot

PARTS = st.sampled_from([0, 100, 150, 250, 300, 460, 500, 700, 999, 1000, 1000])
ROWS = st.lists(st.lists(PARTS, max_size=4), min_size=1, max_size=5)
WANTED = st.sampled_from([1, 50, 100, 250, 333, 460, 500, 501, 999, 1000, 2000, 3000])


def table(rows):
    """float64[n, d], with -1 where a node has fewer devices."""
    width = max(map(len, rows))
    return np.array([[*row, *[-1] * (width - len(row))] for row in rows], dtype=float).reshape(
        len(rows), width
    )


@given(rows=ROWS, wanted=WANTED)
def test_as_many_as_fit_one_by_one(rows, wanted):
    """A node holds as many members as a pod after the other finds a device that fits."""
    assert held_by(table(rows), wanted).tolist() == [most(row, wanted) for row in rows]


@given(rows=ROWS, wanted=WANTED, chance=st.data())
def test_what_members_leave(rows, wanted, chance):
    """Members that sit down at once leave the devices that they would leave one by one."""
    take = [chance.draw(st.integers(0, min(most(row, wanted), 6))) for row in rows]
    expected = [list(row) for row in rows]
    for at, members in enumerate(take):
        for _ in range(members):
            expected[at] = put(expected[at], wanted)

    assert (left_by(table(rows), wanted, np.array(take, dtype=float)) == table(expected)).all()


def sharing(rows, cpus=None):
    """A snapshot whose nodes have these free parts of devices, and so many free cores."""
    cpus = cpus or [64] * len(rows)
    nodes = [
        a_node(f"n{at}", cpu=cpu, more={GPU: 1000 * len(row)})
        for at, (row, cpu) in enumerate(zip(rows, cpus, strict=True))
    ]
    used = {f"n{at}": a_demand(more={GPU: 1000 * len(row) - sum(row)}) for at, row in enumerate(rows)}
    # a column of GPUs also where no node has any
    found = a_snapshot(
        [*nodes, a_node("zz", cpu=0, pods=0, more={GPU: 1000})],
        used={**used, "zz": a_demand(more={GPU: 1000})},
    )
    return replace(found, devices=Devices(found.axis.index[GPU], table([*rows, [0]])))


def after(snapshot, node, demand):
    """The snapshot after one more pod."""
    free, one = snapshot.free.copy(), np.zeros(len(snapshot.names))
    free[snapshot.index[node]] -= snapshot.axis.vector(demand.requests)
    one[snapshot.index[node]] = 1
    asked = [(snapshot.axis.index[name], wanted) for name, wanted in demand.requests]
    return replace(snapshot, free=free, devices=seated(snapshot.devices, asked, one))


@given(rows=ROWS, arrivals=st.lists(st.tuples(WANTED, st.integers(0, 3)), max_size=12), data=st.data())
def test_arrivals(rows, arrivals, data):
    """Pod after pod, the planner says yes exactly if some node has the devices and the cores, and the devices that
    remain are those of the books."""
    rows, cores = [list(row) for row in rows], [data.draw(st.integers(0, 6)) for _ in rows]
    snapshot = sharing(rows, cores)
    strategy = data.draw(st.sampled_from(["pack", "spread", "cosine"]))
    for wanted, cpu in arrivals:
        demand = a_demand(cpu=cpu, more={GPU: wanted})
        decision = decide(snapshot, a_gang(roles=[a_role(demand=demand)], strategy=strategy))
        fits = [at for at, row in enumerate(rows) if put(row, wanted) is not None and cores[at] >= cpu]
        assert isinstance(decision, Place) == bool(fits)
        if isinstance(decision, Place):
            (node,) = decision.seats.values()
            at = int(node.removeprefix("n"))
            assert at in fits
            rows[at], cores[at] = put(rows[at], wanted), cores[at] - cpu
            snapshot = after(snapshot, node, demand)
            assert (snapshot.devices.free == table([*rows, [0]])).all()


@given(
    rows=ROWS,
    wanted=WANTED,
    members=st.integers(1, 8),
    strategy=st.sampled_from(["pack", "spread", "cosine"]),
)
def test_gangs(rows, wanted, members, strategy):
    """A gang of equal shares is seated exactly if the nodes hold that many one by one, and no node gets more."""
    decision = decide(sharing(rows), a_gang(members, strategy=strategy, more={GPU: wanted}))
    held = [most(row, wanted) for row in rows]

    assert isinstance(decision, Place) == (sum(held) >= members)
    if isinstance(decision, Place):
        for at, limit in enumerate(held):
            assert list(decision.seats.values()).count(f"n{at}") <= limit


@given(rows=ROWS, shares=st.integers(1, 3), wholes=st.integers(1, 2))
def test_roles(rows, shares, wholes):
    """Roles with different shares never sit on more than the devices hold: some order of seating them works out."""
    roles = [a_role("a", shares, more={GPU: 400}), a_role("b", wholes, more={GPU: 1000})]
    decision = decide(sharing(rows), a_gang(roles=roles))
    if isinstance(decision, Place):
        for at, row in enumerate(rows):
            here = sorted(uid for uid, node in decision.seats.items() if node == f"n{at}")
            ways = [here, here[::-1]]
            assert any(_holds(row, [400 if uid.startswith("a") else 1000 for uid in way]) for way in ways)


def _holds(row, wanted):
    for own in wanted:
        row = put(row, own) if row is not None else None
    return row is not None


def test_the_sum_is_not_enough():
    """Half of two devices each are no whole one: the pod waits, and would fit if no other pod ran."""
    reason, short = wait(sharing([[500, 500]]), a_gang(1, more={GPU: 1000}))

    assert (reason, short.best) == (Reason.INSUFFICIENT_RESOURCES, 0)
    assert wait(sharing([[500, 500]]), a_gang(1, more={GPU: 3000}))[0] == Reason.EXCEEDS_CLUSTER


def test_partly_used_devices_count_by_their_free_part():
    """Ties go to the node with the fewest free devices, where a device that is half used counts as a half."""
    snapshot = sharing([[1000, 1000], [500, 1000], [700, 1000]])

    assert list(place(snapshot, a_gang(1, more={GPU: 300})).seats.values()) == ["n1"]
    assert list(place(snapshot, a_gang(1, more={GPU: 600})).seats.values()) == ["n1"]
    assert list(place(snapshot, a_gang(1, more={GPU: 2000})).seats.values()) == ["n0"]


@pytest.mark.parametrize("wanted", [1001, 1500, 2400])
def test_a_part_besides_whole_devices(wanted):
    """One device and a part of another is no request that single devices can answer."""
    assert held_by(table([[1000, 1000, 1000]]), wanted).tolist() == [0]
