"""When each waiting gang will start: one scenario, and what many of them say together."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.cluster import Nomination
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Estimate, Order, Share, Stay, Usage, Waiting
from scheduler.model.workload import GangKey
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.forecast import COURSES, SHARED, end_of, forecast
from scheduler.placement.forecast_setup import forecast_setup_of
from scheduler.placement.simulation import Simulation
from tests.support.builders import GPU, a_cluster, a_demand, a_gang, a_role, some_amounts

NOW = 1000.0
PLENTY = 100_000


def exactly(span: float) -> Estimate:
    return Estimate(span, span, span)


def about(span: float) -> Estimate:
    return Estimate(span, span * 2**-0.8, span * 2**0.8)


def waiting(name, count=1, gpu=8, runs=None, **needs) -> Waiting:
    gang = a_gang(count, gpu=gpu, name=name, **needs)
    return Waiting(gang, NOW - 100, runs=None if runs is None else exactly(runs))


def full(nodes, *stays):
    """A rack of nodes of 8 devices and these stays (end, {row: devices}) in it."""
    empty = a_cluster(nodes=nodes, gpu=8)
    free = empty.free.copy()
    made = []
    for number, (ends, gpus) in enumerate(stays):
        uses = np.array([empty.axis.vector(some_amounts(gpu=count)) for count in gpus.values()])
        span = ends if isinstance(ends, Estimate) else exactly(ends)
        made.append(Stay(GangKey("default", f"runs-{number}"), np.array(list(gpus)), uses, span))
        np.subtract.at(free, made[-1].rows, uses)
    return replace(empty, free=free), made


def scenario(snapshot, line, stays, policy=Policy(), ends=None, spans=None, usages=None) -> dict[str, float]:  # noqa: B008
    """The starts of one scenario, by name, from NOW on; ends and runtimes as expected where none are given."""
    setup = forecast_setup_of(snapshot, line, stays, policy, NOW, FeasibilityCache(), usages or {})
    ends = [stay.ends.middle for stay in stays] if ends is None else ends
    spans = [one.runs.middle for one in line] if spans is None else spans
    starts = Simulation(setup, ends, spans, PLENTY).play()
    return {line[one].gang.key.name: start - NOW for one, start in starts.items()}


def ceiling(most, used=0.0, namespace="default") -> dict[str, Usage]:
    """A namespace that uses so many devices, and may use no more than so many."""
    return {namespace: Usage({GPU: used}, Share(ceiling=((GPU, most),)))}


def middles(found) -> dict[str, float]:
    return {key.name: estimate.middle - NOW for key, estimate in found.items()}


# ── one scenario ──────────────────────────────────────────────────────────────────────────────────────────────


def test_gangs_start_as_room_comes_in_the_order_of_the_queue():
    """The first takes the first room; the second waits for the first to end where it ends sooner than others."""
    snapshot, stays = full(2, (NOW + 10, {0: 8}), (NOW + 50, {1: 8}))
    line = [waiting("a", runs=5), waiting("b", runs=100), waiting("c", runs=1)]

    assert scenario(snapshot, line, stays) == {"a": 10, "b": 15, "c": 50}


@pytest.mark.parametrize(
    ("backfill", "starts"),
    [
        (Backfill.NONE, {"large": 20, "long": 30, "short": 30}),
        (Backfill.FREE, {"large": 50, "long": 0, "short": 0}),
        (Backfill.RESERVE, {"large": 20, "long": 30, "short": 0}),
    ],
)
def test_backfill_is_as_the_policy_says(backfill, starts):
    """Strictly in turn; or whoever finds room; or whoever finds room and does not delay the first."""
    snapshot, stays = full(2, (NOW + 20, {0: 8}))
    line = [waiting("large", 2, runs=10), waiting("long", gpu=4, runs=50), waiting("short", gpu=4, runs=20)]

    assert scenario(snapshot, line, stays, Policy(backfill=backfill)) == starts


def test_with_the_order_fit_the_best_fit_of_each_moment_starts():
    """A large gang at the head is passed by smaller ones that fit, the largest of them first, until it fits itself."""
    snapshot, stays = full(1, (NOW + 10, {0: 4}), (NOW + 20, {0: 4}))
    line = [
        waiting("large", gpu=8, runs=10),
        waiting("small", gpu=1, runs=5),
        waiting("middle", gpu=4, runs=15),
    ]

    for backfill in Backfill:
        starts = scenario(snapshot, line, stays, Policy(order=Order.FIT, backfill=backfill))
        assert starts == {"middle": 10, "small": 20, "large": 25}


def test_with_the_order_fit_no_gang_passes_one_that_has_aged():
    """From the age limit on the reservation of a gang holds against younger ones that fit."""
    snapshot, stays = full(1, (NOW + 10, {0: 4}), (NOW + 20, {0: 4}))
    line = [waiting("large", gpu=8, runs=10), waiting("middle", gpu=4, runs=15)]
    line[0] = replace(line[0], arrived=NOW - 200)

    assert scenario(snapshot, line, stays, Policy(order=Order.FIT, age_limit=150.0)) == {
        "large": 20,
        "middle": 30,
    }


def test_who_stays_uses_only_what_is_left_beside_the_head():
    """Room that the head leaves over at its start may be kept for longer, but only once."""
    snapshot, stays = full(1, (NOW + 20, {0: 5}))
    line = [waiting("head", gpu=6, runs=10), *(waiting(f"young-{n}", gpu=1, runs=100) for n in range(3))]

    assert scenario(snapshot, line, stays) == {"head": 20, "young-0": 0, "young-1": 0, "young-2": 30}


@pytest.mark.parametrize("expected", [5, 1000])
def test_room_that_comes_while_the_head_waits_is_used_beside_it(expected):
    """Who found no room beside the head is asked again when somebody leaves, as expected or sooner than that."""
    snapshot, stays = full(2, (NOW + 20, {0: 7}), (NOW + 1000, {1: 7}), (NOW + expected, {1: 1}))
    line = [waiting("head", gpu=8, runs=10), waiting("young", gpu=1, runs=100)]

    assert scenario(snapshot, line, stays, ends=[NOW + 20, NOW + 1000, NOW + 5]) == {"head": 20, "young": 5}


def test_each_head_is_kept_room_of_its_own():
    """When the head begins sooner than was reserved for it, the next must not be delayed by who fits before the old
    time.
    """
    snapshot, stays = full(1, (NOW + 20, {0: 8}))
    line = [waiting("a", gpu=6, runs=10), waiting("b", gpu=8, runs=10), waiting("c", gpu=1, runs=12)]

    assert scenario(snapshot, line, stays, ends=[NOW + 5]) == {"a": 5, "b": 15, "c": 25}


def test_a_time_that_has_passed_is_kept_no_longer():
    """When the head cannot begin at the time reserved for it, others are held against the time that is reserved
    then.
    """
    snapshot, stays = full(1, (NOW + 10, {0: 6}), (NOW + 10, {0: 2}))
    line = [waiting("head", gpu=8, runs=10), waiting("young", gpu=2, runs=20)]

    assert scenario(snapshot, line, stays, ends=[NOW + 50, NOW + 10]) == {"head": 50, "young": 10}


def test_what_never_fits_keeps_nobody_from_starting():
    """A gang larger than the emptied cluster is passed by, whatever the backfill."""
    snapshot, stays = full(2, (NOW + 20, {0: 8}))
    line = [waiting("giant", 3, runs=10), waiting("b", 2, runs=10)]

    for backfill in Backfill:
        assert scenario(snapshot, line, stays, Policy(backfill=backfill)) == {"b": 20}


def test_ends_come_when_they_come_and_not_when_they_are_expected():
    """An early end makes room early, a late one late; nothing starts on a promise."""
    snapshot, stays = full(2, (NOW + 10, {0: 8}), (NOW + 30, {1: 8}))
    line = [waiting("head", 2, runs=10)]

    assert scenario(snapshot, line, stays, ends=[NOW + 2, NOW + 7]) == {"head": 7}
    assert scenario(snapshot, line, stays, ends=[NOW + 40, NOW + 90]) == {"head": 90}
    assert scenario(snapshot, line, stays, ends=[NOW + 40, math.inf]) == {}


def test_gangs_that_counting_cannot_tell_about_are_the_planners():
    """A required level and several roles are honoured: the young one sits beside the first, where the other has to
    wait.
    """
    snapshot = a_cluster(racks=2, nodes=1, gpu=8)
    stays = [
        Stay(
            GangKey("default", name),
            np.array([row]),
            np.array([snapshot.axis.vector(some_amounts(gpu=6))]),
            exactly(end),
        )
        for name, row, end in (("a", 0, NOW + 10), ("b", 1, NOW + 20))
    ]
    free = snapshot.free.copy()
    free[:, snapshot.axis.index[GPU]] = 2
    picture = replace(snapshot, free=free)
    roles = [a_role("ps", 1, demand=a_demand(cpu=1)), a_role("worker", 1, gpu=8)]
    level = Waiting(a_gang(2, gpu=2, required=True, name="level"), NOW, runs=exactly(5))
    mixed = Waiting(a_gang(roles=roles, name="mixed"), NOW, runs=exactly(5))
    young = Waiting(a_gang(1, gpu=2, name="young"), NOW, runs=exactly(99))

    assert scenario(picture, [level, mixed, young], stays) == {"level": 10, "mixed": 20, "young": 0}


def test_room_promised_to_others_is_not_given_away():
    """A nominated pod of another scheduler keeps its room in every scenario."""
    empty = a_cluster(nodes=1, gpu=8)
    needs = empty.axis.vector(some_amounts(gpu=4))
    promised = replace(empty, nominations=(Nomination(0, 0, needs),))

    assert scenario(empty, [waiting("a", runs=1)], []) == {"a": 0}
    assert scenario(promised, [waiting("a", runs=1)], []) == {}


def _in_turn(free, stays, line, backfill=Backfill.RESERVE):
    """A walk along the whole queue at every end, on one node: (end, devices) run, (devices, runtime) wait; starts by
    place.

    With RESERVE this is EASY backfilling by the book.
    """
    running, queue, starts, now = list(stays), list(range(len(line))), {}, 0
    while True:
        shadow = spare = None
        rest = []
        for one in queue:
            size, runs = line[one]
            strict = rest and backfill is Backfill.NONE
            if not strict and size <= free and (shadow is None or now + runs <= shadow or size <= spare):
                free -= size
                starts[one] = now
                running.append((now + runs, size))
                spare = spare - size if shadow is not None and now + runs > shadow else spare
                continue
            rest.append(one)
            if shadow is None and backfill is Backfill.RESERVE:
                room = free
                for shadow in sorted({end for end, _ in running}):
                    room = free + sum(own for end, own in running if end <= shadow)
                    if room >= size:
                        break
                spare = room - size
        queue = rest
        if not queue:
            return starts
        now = min(end for end, _ in running)
        free += sum(own for end, own in running if end <= now)
        running = [(end, own) for end, own in running if end > now]


def _on_one_node(stays, line, backfill=Backfill.RESERVE):
    """The starts of one scenario, by place: (end, devices) run and (devices, runtime) wait on a node of 12 devices."""
    empty = a_cluster(nodes=1, gpu=12)
    free = empty.free.copy()
    free[0, empty.axis.index[GPU]] = 12 - sum(size for _, size in stays)
    made = [
        Stay(
            GangKey("d", str(n)),
            np.array([0]),
            np.array([empty.axis.vector(some_amounts(gpu=size))]),
            exactly(NOW + end),
        )
        for n, (end, size) in enumerate(stays)
    ]
    queue = [waiting(str(n), gpu=size, runs=runs) for n, (size, runs) in enumerate(line)]

    found = scenario(replace(empty, free=free), queue, made, Policy(backfill=backfill))
    return {int(name): start for name, start in found.items()}


STAYS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=3)
FEW_SHAPES = st.tuples(st.sampled_from((1, 4, 9)), st.integers(1, 30))


@pytest.mark.slow
@settings(max_examples=150)
@given(STAYS, st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=8))
def test_a_course_is_easy_backfilling(stays, line):
    """On one node, with runtimes that are true, everybody starts when EASY backfilling by the book starts it."""
    assert _on_one_node(stays, line) == _in_turn(12 - sum(size for _, size in stays), stays, line)


@pytest.mark.slow
@pytest.mark.parametrize("backfill", Backfill)
@settings(max_examples=60)
@given(stays=STAYS, line=st.lists(FEW_SHAPES, min_size=10, max_size=40))
def test_a_long_queue_of_few_shapes_goes_in_turn(backfill, stays, line):
    """Asked by shape, everybody starts when a walk along the whole queue starts it: in turn, the short past the
    long.
    """
    starts = _in_turn(12 - sum(size for _, size in stays), stays, line, backfill)

    assert _on_one_node(stays, line, backfill) == starts


# ── many scenarios ────────────────────────────────────────────────────────────────────────────────────────────


def test_who_finds_room_starts_now():
    """A gang that fits starts now in every scenario, and nothing about that is uncertain."""
    found = forecast(a_cluster(nodes=2, gpu=8), [waiting("a")], [], Policy(), NOW, PLENTY)

    assert found == {GangKey("default", "a"): exactly(NOW)}


def test_the_middle_follows_the_ends_and_the_bounds_hold_them():
    """Behind one gang that runs on for about an hour, the wait is about an hour."""
    snapshot, stays = full(1, (about(3600).after(NOW), {0: 8}))

    (found,) = forecast(snapshot, [waiting("a")], stays, Policy(), NOW, PLENTY).values()

    assert found.middle - NOW == pytest.approx(3600, rel=0.05)
    assert (found.low - NOW) / 3600 == pytest.approx(2**-0.8, rel=0.15)
    assert (found.high - NOW) / 3600 == pytest.approx(2**0.8, rel=0.15)


def test_no_course_goes_beyond_the_end_of_a_gang():
    """Behind a gang that is ended at a time, no bound of a start lies far behind it."""
    snapshot, stays = full(1, (about(3600).after(NOW), {0: 8}))
    ended = [replace(stay, latest=NOW + 1800) for stay in stays]

    (found,) = forecast(snapshot, [waiting("a")], ended, Policy(), NOW, PLENTY).values()

    assert found.high - NOW <= 1800 * SHARED


def test_room_that_the_first_of_many_leaves_comes_early():
    """Whoever waits for any one of eight equal gangs starts well before the middle of their ends."""
    snapshot, stays = full(8, *((about(3600).after(NOW), {row: 8}) for row in range(8)))

    (found,) = forecast(snapshot, [waiting("a")], stays, Policy(), NOW, PLENTY).values()

    assert found.high - NOW < 3600
    assert found.low - NOW >= 1800 / SHARED


def test_errors_of_many_gangs_cancel_out():
    """The wait behind a long line is known better, in parts of itself, than the wait behind one gang."""
    snapshot, stays = full(1, (about(3600).after(NOW), {0: 8}))
    line = [replace(waiting(f"g{number}"), runs=about(3600)) for number in range(20)]

    found = list(forecast(snapshot, line, stays, Policy(), NOW, PLENTY).values())

    widths = [(one.high - one.low) / (one.middle - NOW) for one in found]
    assert len(found) == 20
    assert widths[-1] < widths[0] / 1.5
    assert all(sooner.middle < later.middle for sooner, later in pairwise(found))


def test_a_small_budget_reaches_the_head_of_the_queue():
    """Gangs that were not reached are left out; those that were are told the same as with any budget."""
    snapshot, stays = full(1, (NOW + 10, {0: 8}))
    line = [waiting(f"g{number}", runs=10) for number in range(30)]

    some = forecast(snapshot, line, stays, Policy(), NOW, COURSES * 5)
    everybody = forecast(snapshot, line, stays, Policy(), NOW, PLENTY)

    assert list(some) == [one.gang.key for one in line[: len(some)]]
    assert 1 <= len(some) <= 5
    assert len(everybody) == 30
    assert middles(some).items() <= middles(everybody).items()


def test_who_never_fits_is_left_out():
    """No time is told where there is none, nor where room is held for ever."""
    snapshot, stays = full(2, (NOW + 10, {0: 8}), (math.inf, {1: 8}))
    line = [waiting("giant", 3), waiting("pair", 2), waiting("one")]

    assert middles(forecast(snapshot, line, stays, Policy(), NOW, PLENTY)) == {
        "one": pytest.approx(10, abs=0.5)
    }


def test_who_asks_for_an_unknown_level_is_left_out():
    """The planner refuses such a gang until it is mended, so no time is told, and nobody waits behind it."""
    snapshot, stays = full(2, (NOW + 10, {0: 8}))
    line = [waiting("astray", level="room"), waiting("one")]

    assert list(middles(forecast(snapshot, line, stays, Policy(), NOW, PLENTY))) == ["one"]


def test_nobody_waits_nothing_is_told():
    """An empty queue has no forecast."""
    snapshot, stays = full(1, (NOW + 10, {0: 8}))

    assert forecast(snapshot, [], stays, Policy(), NOW, PLENTY) == {}


def test_a_gang_without_estimate_runs_for_about_the_default():
    """Who waits behind a gang that says nothing waits for the default runtime, with wide bounds."""
    line = [waiting("a"), waiting("b")]

    found = forecast(a_cluster(nodes=1, gpu=8), line, [], Policy(default_runtime=600.0), NOW, PLENTY)
    second = found[GangKey("default", "b")]

    assert second.middle - NOW == pytest.approx(600, rel=0.2)
    assert second.low - NOW < 120
    assert second.high - NOW > 3000


def test_the_same_question_has_the_same_answer():
    """Nothing is left to chance, and neither picture nor queue is changed by asking."""
    snapshot, stays = full(3, *((about(100 * (row + 1)).after(NOW), {row: 8}) for row in range(3)))
    line = [replace(waiting(f"g{n}", 1 + n % 3), runs=about(50)) for n in range(6)]
    before = snapshot.free.copy()

    first = forecast(snapshot, line, stays, Policy(), NOW, PLENTY)

    assert forecast(snapshot, line, stays, Policy(), NOW, PLENTY, FeasibilityCache()) == first
    assert (snapshot.free == before).all()


ENDS = st.tuples(st.floats(-5000, 5000), st.floats(0, 3000), st.floats(0, 3000)).map(
    lambda parts: Estimate(NOW + parts[0], NOW + parts[0] - parts[1], NOW + parts[0] + parts[2])
)


@given(ENDS, st.lists(st.floats(0.01, 0.99), min_size=2, max_size=6))
def test_ends_lie_ahead_and_grow_with_their_part(ends, parts):
    """Whatever the bounds, an end drawn from them has not come yet, and a larger part lies later."""
    drawn = [end_of(ends, NOW, part) for part in sorted(parts)]

    assert all(NOW <= end < math.inf for end in drawn)
    assert all(sooner <= later + 1e-6 for sooner, later in pairwise(drawn))


def test_ends_follow_their_bounds():
    """Ahead of now they are the bounds; an end that was due goes on as long again; one that is not known never
    comes.
    """
    ends = Estimate(NOW + 100, NOW + 50, NOW + 300)

    assert [end_of(ends, NOW, part) - NOW for part in (0.1, 0.5, 0.9)] == pytest.approx([50, 100, 300])
    assert end_of(exactly(NOW - 500), NOW, 0.5) == NOW + 500
    assert end_of(exactly(NOW - 1), NOW, 0.5) == NOW + 60
    assert NOW < end_of(Estimate(NOW + 10, NOW - 100, NOW + 100), NOW, 0.1) < NOW + 30
    assert end_of(exactly(math.inf), NOW, 0.5) == math.inf


# ── what is likely, and what is decided by ──────────────────────────────────────────────────────────────────


def test_starts_follow_what_is_likely_and_room_is_reserved_by_what_is_expected():
    """Both nodes are likely to be free after 50 s. The second may pass the first, which waits for both, as it is
    expected to have left by the 100 s at which room is reserved; though it is likely to stay for 150, and the first
    waits for it.
    """
    snapshot, stays = full(2, (NOW + 100, {0: 8}))
    stays = [replace(stays[0], likely=exactly(NOW + 50))]
    line = [waiting("first", count=2, runs=10), replace(waiting("passes", runs=90), likely=exactly(150))]

    found = forecast(snapshot, line, stays, Policy(), NOW, PLENTY)

    assert middles(found) == pytest.approx({"first": 150, "passes": 0}, rel=0.01)
    stays_longer = [line[0], replace(waiting("passes", runs=110), likely=exactly(1))]
    assert middles(forecast(snapshot, stays_longer, stays, Policy(), NOW, PLENTY)) == pytest.approx(
        {"first": 50, "passes": 60}, rel=0.01
    )


# ── ceilings ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("backfill", list(Backfill))
def test_a_gang_at_its_ceiling_starts_when_its_own_namespace_has_left_enough(backfill):
    """There is room all the time. It holds up no gang of another namespace, whatever the backfill."""
    snapshot, stays = full(4, (NOW + 20, {0: 8}), (NOW + 50, {1: 8}))
    stays = [replace(stays[0], namespace="other"), replace(stays[1], namespace="default")]
    other = replace(waiting("other", runs=30).gang, key=GangKey("other", "other"))
    line = [waiting("capped", runs=10), Waiting(other, NOW, runs=exactly(30))]

    starts = scenario(snapshot, line, stays, Policy(backfill=backfill), usages=ceiling(8, used=8))

    assert starts == {"capped": 50, "other": 0}


def test_what_begins_counts_for_its_namespace_until_it_leaves():
    """Two gangs that the ceiling lets run one at a time follow each other, though both would find room at once."""
    line = [waiting("a", runs=10), waiting("b", runs=10), waiting("c", gpu=4, runs=10)]

    starts = scenario(a_cluster(nodes=4, gpu=8), line, [], usages=ceiling(12))

    assert starts == {"a": 0, "c": 0, "b": 10}


def test_a_gang_that_its_ceiling_never_lets_start_is_told_no_time():
    """Its quorum alone is too much, or too much beside a pod of its namespace that never leaves."""
    snapshot, stays = full(4, (math.inf, {0: 4}), (NOW + 20, {1: 4}))
    stays = [replace(stay, namespace="default") for stay in stays]
    line = [
        waiting("too-large", 3, runs=10),
        waiting("beside", gpu=8, runs=10),
        waiting("fits", gpu=4, runs=10),
    ]

    found = forecast(snapshot, line, stays, Policy(), NOW, PLENTY, usages=ceiling(10, used=8))

    assert {name: middle > 0 for name, middle in middles(found).items()} == {"fits": True}


def test_gangs_of_two_kinds_that_pass_the_head_share_one_ceiling():
    """Each would stay below it, had the other not begun a moment ago."""
    snapshot, stays = full(3, (NOW + 50, {0: 8}))
    other = replace(waiting("head", 3, gpu=8).gang, key=GangKey("other", "head"))
    line = [
        Waiting(other, NOW, runs=exactly(10)),
        waiting("x", gpu=4, runs=10),
        waiting("y", gpu=5, runs=10),
    ]

    assert scenario(snapshot, line, stays, usages=ceiling(8)) == {"x": 0, "y": 10, "head": 50}


def test_a_head_that_comes_to_its_ceiling_holds_up_nobody():
    """A gang of its namespace passes it and uses what the namespace may: the next takes the room kept for it."""
    snapshot, stays = full(2, (NOW + 20, {0: 8}), (NOW + 40, {1: 4}))
    line = [waiting("head", gpu=8, runs=10), waiting("passes", gpu=4, runs=30)]
    other = Waiting(replace(waiting("o", gpu=8).gang, key=GangKey("z", "o")), NOW, runs=exactly(5))

    starts = scenario(snapshot, [*line, other], stays, usages=ceiling(8))

    assert starts == {"passes": 0, "o": 20, "head": 30}
