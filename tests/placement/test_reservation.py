"""Room reserved in time: the earliest start, and that nobody who starts beside it delays it."""

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.decision import Place
from scheduler.model.policy import Policy
from scheduler.model.queueing import Estimate, Stay, Waiting
from scheduler.model.workload import GangKey
from scheduler.placement import planner, reservation
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.reservation import (
    Running,
    Search,
    beside,
    could_hold,
    departures,
    expected_ends,
    first_that,
    leaves,
    narrowed,
    overrun_at_least,
    quorum_alone,
    uses_of,
)
from tests.support.builders import GPU, a_cluster, a_demand, a_gang, a_role, keys_of, some_amounts

NOW = 1000.0
POLICY = Policy()


def reserve(snapshot, gang, stays, *rest):
    return reservation.reserve(snapshot, gang, Running.of(stays), *rest)


def a_stay(snapshot, name, ends, **gpus) -> Stay:
    """A gang that leaves at `ends`; gpus: by node (n0 for a0-r0-n0), the devices of its one pod there."""
    rows = [snapshot.index[f"a0-r0-{node}"] for node in gpus]
    uses = [snapshot.axis.vector(some_amounts(gpu=count, pods=1)) for count in gpus.values()]
    return Stay(GangKey("default", name), np.array(rows), np.array(uses), Estimate(ends, ends, ends))


def full(nodes, *stays):
    """A rack of nodes of 8 devices, and these stays (name, end, {node: devices}) in it."""
    empty = a_cluster(nodes=nodes, gpu=8)
    made = [a_stay(empty, name, ends, **gpus) for name, ends, gpus in stays]
    free = empty.free.copy()
    for stay in made:
        np.subtract.at(free, stay.rows, stay.uses)
    return replace(empty, free=free), made


def devices(snapshot, matrix) -> list[float]:
    return matrix[:, snapshot.axis.index[GPU]].tolist()


def test_the_head_starts_when_enough_have_left():
    """Two whole nodes are there once the second of three has left."""
    snapshot, stays = full(
        3, ("a", NOW + 30, {"n0": 8}), ("b", NOW + 10, {"n1": 8}), ("c", NOW + 20, {"n2": 8})
    )

    kept = reserve(snapshot, a_gang(2, gpu=8, name="head"), stays, POLICY, NOW)

    assert kept is not None
    assert kept.key == GangKey("default", "head")
    assert kept.start == NOW + 20
    assert devices(snapshot, kept.seats) == [0, 8, 8]
    assert devices(snapshot, kept.left) == [0, 0, 0]


def test_room_that_is_there_is_reserved_from_now_on():
    """A gang that fits already starts now."""
    snapshot, stays = full(2, ("a", NOW + 30, {"n0": 8}))

    kept = reserve(snapshot, a_gang(1, gpu=8), stays, POLICY, NOW)

    assert kept is not None
    assert kept.start == NOW


def test_what_the_emptied_cluster_cannot_hold_gets_no_reservation():
    """Three whole nodes will never be free where there are two."""
    snapshot, stays = full(2, ("a", NOW + 30, {"n0": 8}))

    assert reserve(snapshot, a_gang(3, gpu=8), stays, POLICY, NOW) is None


def test_who_never_leaves_is_not_waited_for():
    """Room of pods whose end nobody knows is no room."""
    snapshot, stays = full(2, ("a", math.inf, {"n0": 8}), ("b", NOW + 5, {"n1": 8}))

    assert reserve(snapshot, a_gang(2, gpu=8), stays, POLICY, NOW) is None
    assert reserve(snapshot, a_gang(1, gpu=8), stays, POLICY, NOW).start == NOW + 5


def test_an_empty_cluster_reserves_or_not():
    """Without anybody who runs there is now or never."""
    snapshot = a_cluster(nodes=2, gpu=8)

    assert reserve(snapshot, a_gang(2, gpu=8), [], POLICY, NOW).start == NOW
    assert reserve(snapshot, a_gang(3, gpu=8), [], POLICY, NOW) is None


def test_a_required_level_is_waited_for_in_one_domain():
    """A gang that must lie in one rack waits until one rack has room, not until two together have."""
    empty = a_cluster(racks=2, nodes=2, gpu=8)
    ends = {"a0-r0-n0": 10, "a0-r1-n0": 20, "a0-r0-n1": 30, "a0-r1-n1": 40}
    stays = [
        Stay(
            GangKey("default", name),
            np.array([empty.index[name]]),
            np.array([empty.axis.vector(some_amounts(gpu=8))]),
            Estimate(NOW + end, NOW + end, NOW + end),
        )
        for name, end in ends.items()
    ]
    free = empty.free.copy()
    free[:, empty.axis.index[GPU]] = 0
    snapshot = replace(empty, free=free)

    assert reserve(snapshot, a_gang(2, gpu=8), stays, POLICY, NOW).start == NOW + 20
    assert reserve(snapshot, a_gang(2, gpu=8, required=True), stays, POLICY, NOW).start == NOW + 30


def test_surplus_is_not_reserved_for():
    """Members above the quorum neither delay the start nor keep room."""
    snapshot, stays = full(2, ("a", NOW + 30, {"n0": 8}), ("b", NOW + 10, {"n1": 8}))

    kept = reserve(snapshot, a_gang(1, surplus=1, gpu=8), stays, POLICY, NOW)

    assert kept.start == NOW + 10
    assert devices(snapshot, kept.seats) == [0, 8]


def test_an_overrun_is_expected_to_go_on_as_long_again():
    """An end that has passed lies as far ahead as behind, at least a minute."""
    ends = expected_ends(np.array([NOW - 500, NOW - 1, NOW, NOW + 7, math.inf]), NOW)

    assert ends.tolist() == [NOW + 500, NOW + 60, NOW + 60, NOW + 7, math.inf]


def test_no_gang_is_expected_to_outlast_its_end():
    """A gang that is ended at a time leaves then at the latest, also one that has run past its estimate."""
    snapshot, (stay,) = full(1, ("a", NOW - 500, {"n0": 8}))
    gang = a_gang(1, gpu=8)

    assert reserve(snapshot, gang, [stay], POLICY, NOW).start == NOW + 500
    assert reserve(snapshot, gang, [replace(stay, latest=NOW + 20)], POLICY, NOW).start == NOW + 20
    assert reserve(snapshot, gang, [replace(stay, latest=NOW - 20)], POLICY, NOW).start == NOW + 500


def test_a_short_gang_that_overruns_is_not_expected_to_take_a_minute():
    """Whoever was known to within two seconds is taken to go on for two; of an end known exactly nothing is known
    now.
    """
    assert overrun_at_least(Estimate(NOW, NOW - 1, NOW + 1)) == 2
    assert overrun_at_least(Estimate(NOW, NOW - 1000, NOW + 1000)) == 60
    assert overrun_at_least(Estimate(NOW, NOW, NOW)) == 60


def test_the_end_of_a_gang_that_says_nothing_is_the_default():
    """A younger gang leaves by the middle of its estimate, or by the default runtime."""
    gang = a_gang()

    assert leaves(Waiting(gang, 0.0, runs=Estimate(50, 5, 500)), POLICY, NOW) == NOW + 50
    assert leaves(Waiting(gang, 0.0), POLICY, NOW) == NOW + POLICY.default_runtime


def test_who_leaves_in_time_may_use_all_that_is_free():
    """Beside a reservation the room is all there is for those who leave by its start, the common part for others."""
    snapshot, stays = full(2, ("a", NOW + 30, {"n0": 4}), ("b", NOW + 10, {"n1": 6}))
    kept = reserve(snapshot, a_gang(1, gpu=8), stays, POLICY, NOW)
    assert devices(snapshot, kept.left) == [4, 0]

    assert beside(snapshot, kept, NOW + 10) is snapshot
    assert devices(snapshot, beside(snapshot, kept, NOW + 10.5).free) == [4, 0]
    assert devices(snapshot, beside(snapshot, kept, None).free) == [4, 0]


def test_who_stays_narrows_what_is_left_for_the_next():
    """Two gangs that stay share what is left at the start, they do not each get it."""
    snapshot, stays = full(2, ("a", NOW + 30, {"n0": 4}), ("b", NOW + 10, {"n1": 6}))
    kept = reserve(snapshot, a_gang(1, gpu=8), stays, POLICY, NOW)

    less = narrowed(kept, np.array([0]), np.array([snapshot.axis.vector(some_amounts(gpu=3))]))

    assert devices(snapshot, less.left) == [1, 0]
    assert devices(snapshot, kept.left) == [4, 0]


def test_pictures_cannot_be_written():
    """The arrays of a reservation and of the room beside it are write-protected, as a snapshot's are."""
    snapshot, stays = full(2, ("a", NOW + 30, {"n0": 8}))
    kept = reserve(snapshot, a_gang(2, gpu=8), stays, POLICY, NOW)

    for array in (kept.left, kept.seats, beside(snapshot, kept, None).free):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1


def test_few_decisions_are_asked_for():
    """A thousand ends cost at most log2 of them and two decisions."""
    names = [f"n{node}" for node in range(4)]
    snapshot, stays = full(4, *((f"s{i}", NOW + 1 + i, {names[i % 4]: 1}) for i in range(32)))
    many = [replace(stay, ends=Estimate(t, t, t)) for t, stay in enumerate(stays * 32, start=1001)]
    going = departures(np.array([s.ends.middle for s in many]), Running.of(many).uses, NOW)
    roles = [a_role("big", 2, gpu=7), a_role("small", 2, gpu=1), a_role("cpu", 4, cpu=8)]
    search = Search(snapshot, a_gang(roles=roles), POLICY, going, None, FeasibilityCache())

    assert search.earliest() is not None
    assert 1 <= search.asked <= math.log2(len(many)) + 2


@pytest.mark.parametrize("steps", range(40))
def test_steps_double_and_are_bisected(steps):
    """The first step that holds is found, however many there are, and none far beyond it is looked at."""
    for first in range(steps + 1):
        asked: list[int] = []
        assert first_that(steps, partial(_noted, asked, first)) == first
        assert max(asked, default=0) <= 2 * first + 1
        assert len(asked) <= 2 * math.log2(first + 2) + 2


def _noted(asked: list[int], first: int, step: int) -> bool:
    asked.append(step)
    return step >= first


def test_departures_are_in_order_of_time():
    """Ends at one time are one step; one that never comes is none, and the pods of all before have left at each."""
    snapshot, stays = full(3, *((f"s{i}", NOW + 1, {f"n{i}": 1}) for i in range(3)))
    running = Running.of(stays)
    going = departures(np.array([NOW + 7, math.inf, NOW + 5]), running.uses, NOW)
    column = snapshot.axis.index[GPU]
    free = [going.then(snapshot, step).free[:, column].tolist() for step in range(len(going.times))]

    assert going.times.tolist() == [NOW, NOW + 5, NOW + 7]
    assert free[0] == snapshot.free[:, column].tolist()
    assert [now - before for now, before in zip(free[2], free[0], strict=True)] == [1, 0, 1]
    assert departures(np.array([]), running.uses, NOW).times.tolist() == [NOW]
    assert (
        departures(np.array([math.inf]), running.uses, NOW).then(snapshot, 0).free.tolist()
        == snapshot.free.tolist()
    )


def test_gangs_that_end_before_others_come_first():
    """Pods that already terminate are joined to the gangs that run, with their own ends and pods."""
    _, stays = full(4, *((f"s{i}", NOW + 1 + i, {f"n{i}": 1}) for i in range(4)))
    joined, whole = Running.of(stays[2:]).behind(stays[:2]), Running.of(stays)

    assert joined.ends(NOW).tolist() == whole.ends(NOW).tolist()
    assert keys_of(joined) == keys_of(whole) == [stay.key for stay in stays]
    assert all(joined.uses(n)[0].tolist() == whole.uses(n)[0].tolist() for n in range(4))
    assert keys_of(Running.of(stays).behind(())) == keys_of(whole)


# ── against brute force ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Site:
    """A cluster on which time passes: who sits where, and when each leaves."""

    empty: object
    sitting: list[Stay] = field(default_factory=list)

    def snapshot(self):
        free = self.empty.free.copy()
        for stay in self.sitting:
            np.subtract.at(free, stay.rows, stay.uses)
        assert (free >= 0).all()
        return replace(self.empty, free=free)

    def sit(self, gang, place, ends) -> Stay:
        rows, uses = uses_of(self.empty, gang, place)
        self.sitting.append(Stay(gang.key, rows, uses, Estimate(ends, ends, ends)))
        return self.sitting[-1]

    def leave(self, now):
        self.sitting = [stay for stay in self.sitting if stay.ends.middle > now]


def gangs(name):
    return st.builds(
        lambda count, gpu, required, priority: a_gang(
            count, gpu=gpu, name=name, required=required, priority=priority
        ),
        st.integers(1, 4),
        st.integers(1, 4),
        st.booleans(),
        st.just(0),
    )


@st.composite
def sites(draw):
    """Up to two racks of up to three nodes of 4 devices, and gangs that run there."""
    site = Site(a_cluster(racks=draw(st.integers(1, 2)), nodes=draw(st.integers(1, 3)), gpu=4))
    for number in range(draw(st.integers(0, 6))):
        gang = draw(gangs(f"runs-{number}"))
        place = planner.decide(site.snapshot(), gang, POLICY)
        if isinstance(place, Place):
            site.sit(gang, place, NOW + draw(st.integers(1, 9)))
    return site


@pytest.mark.slow
@given(sites(), gangs("head"))
def test_the_start_is_the_earliest(site, head):
    """No earlier end leaves room for the head: every one is looked at, in order."""
    kept = reserve(site.snapshot(), head, site.sitting, POLICY, NOW)
    times = sorted({NOW, *(stay.ends.middle for stay in site.sitting)})
    fits = []
    for time in times:
        site.leave(time)
        fits.append(isinstance(planner.decide(site.snapshot(), head, POLICY), Place))

    assert (kept.start if kept else None) == next(
        (t for t, fit in zip(times, fits, strict=True) if fit), None
    )


def crowd():
    """One or two nodes of 6, gangs that run there, a large head, small younger ones: arrival, devices, runtime."""
    running = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=5)
    young = st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(1, 12)), min_size=2, max_size=9
    )
    return st.tuples(st.integers(1, 2), running, st.integers(3, 6), young)


@pytest.mark.slow
@settings(max_examples=200)
@given(crowd())
def test_nobody_beside_delays_the_head(crowd):
    """Younger gangs come at any time and are seated beside; the head still starts by what it was first promised."""
    nodes, running, size, young = crowd
    site = Site(a_cluster(nodes=nodes, gpu=6))
    for number, (gpu, end) in enumerate(running):
        gang = a_gang(1, gpu=gpu, name=f"runs-{number}")
        place = planner.decide(site.snapshot(), gang, POLICY)
        if isinstance(place, Place):
            site.sit(gang, place, NOW + end)
    head = a_gang(nodes, gpu=size, name="head")
    first = reserve(site.snapshot(), head, site.sitting, POLICY, NOW)
    assert first is not None
    for now in range(int(NOW), int(first.start) + 1):
        site.leave(now)
        if isinstance(planner.decide(site.snapshot(), head, POLICY), Place):
            break
        kept = reserve(site.snapshot(), head, site.sitting, POLICY, now)
        assert kept is not None
        assert kept.start <= first.start
        for arrival, gpu, runs in young:
            if NOW + arrival == now:
                kept = _seat_beside(site, kept, a_gang(1, gpu=gpu, name="young"), now + runs)
    else:
        pytest.fail("the head did not start when it was promised")


def _seat_beside(site, kept, gang, ends):
    place = planner.decide(beside(site.snapshot(), kept, ends), gang, POLICY)
    if not isinstance(place, Place):
        return kept
    stay = site.sit(gang, place, ends)
    return narrowed(kept, stay.rows, stay.uses) if ends > kept.start else kept


@pytest.mark.slow
@given(sites(), st.lists(gangs("one"), max_size=4))
def test_counting_never_says_no_where_the_planner_seats(site, some):
    """What the cheap question rules out, the planner has no seats for."""
    for gang in some:
        snapshot = site.snapshot()
        if not could_hold(snapshot, snapshot.free, gang, FeasibilityCache()):
            assert not isinstance(planner.decide(snapshot, gang, POLICY), Place)


def test_counting_looks_at_each_role_and_at_the_nodes_open_to_it():
    """Room on a node that a role may not go to, or that another role needs, is not counted for it."""
    snapshot = a_cluster(nodes=2, gpu=8)
    elsewhere = a_gang(roles=[a_role(count=1, demand=a_demand(gpu=1, selector={"pool": "x"}))])
    both = a_gang(roles=[a_role("a", 2, gpu=8), a_role("b", 3, gpu=8)])

    assert not could_hold(snapshot, snapshot.free, elsewhere, FeasibilityCache())
    assert not could_hold(snapshot, snapshot.free, both, FeasibilityCache())
    assert could_hold(snapshot, snapshot.free, a_gang(2, gpu=8), FeasibilityCache())


def test_the_quorum_alone_has_no_surplus():
    """Everything else of the gang stays."""
    gang = a_gang(2, surplus=3, gpu=1)

    assert quorum_alone(gang) == a_gang(2, gpu=1)
