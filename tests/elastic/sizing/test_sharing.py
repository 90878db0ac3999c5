"""One call for all jobs: bounds, room, fairness."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from scheduler.elastic.sizing import UNLIMITED, JobView, Measured, Stage, Want, decode, free_on, size, slots
from scheduler.elastic.sizing.job_view import RATES
from scheduler.elastic.sizing.policy_parameters import BY_NAME
from tests.elastic.sizing.pictures import job, seen

RATES_TOLD = some.floats(0.1, 1e4) | some.sampled_from(RATES)
"""What jobs do, and what a script may tell."""


@some.composite
def pictures(draw, name):
    """A job in any state."""
    low = draw(some.integers(1, 6))
    high = draw(some.integers(low, 20))
    at = draw(some.integers(0, 20))
    rates = draw(some.dictionaries(some.integers(1, 24), RATES_TOLD, max_size=6))
    return JobView(
        name=name,
        min=low,
        max=high,
        size=at,
        held=draw(some.integers(0, 24)),
        want=draw(some.integers(0, 24)),
        parameters=decode(draw(some.sampled_from(list(BY_NAME))), {}),
        worker=draw(some.sampled_from([{"workers": 1.0}, {"workers": 2.0}, {"workers": 1.0, "gpu": 1.0}])),
        in_flight=draw(some.booleans()),
        since_change=draw(some.floats(0.0, 100.0)),
        measured={
            workers: Measured(mean=rate, variance=draw(some.floats(0, rate)), count=draw(some.floats(1, 100)))
            for workers, rate in rates.items()
        },
        remaining=draw(some.none() | some.floats(0.0, 1e6)),
        idle=draw(some.none() | some.floats(0.0, 60.0)),
        per_worker=draw(some.none() | some.integers(1, 64)),
        batch_limit=draw(some.none() | some.integers(1, 512)),
        epoch=draw(some.none() | some.floats(0, 50)),
        epoch_s=draw(some.none() | some.floats(0.1, 1000)),
        schedule=tuple(Stage(float(epoch), draw(some.integers(1, 24))) for epoch in (0, 10, 20)),
    )


AT_ANY_PACE = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
CLUSTERS = some.integers(0, 4).flatmap(
    lambda count: some.tuples(*(pictures(name=f"team/{number}") for number in range(count)))
)
ROOMS = some.lists(
    some.fixed_dictionaries({"workers": some.integers(0, 8), "gpu": some.integers(0, 4)}), max_size=4
)


@pytest.mark.slow
@AT_ANY_PACE
@given(CLUSTERS, ROOMS)
def test_bounds(jobs, nodes):
    """Every job gets an answer between its minimum and its maximum, with a reason and its policy."""
    wants = size(jobs, free_on(nodes))

    assert wants.keys() == {one.name for one in jobs}
    for one in jobs:
        want = wants[one.name]
        assert one.min <= want.size <= one.max
        assert want.reason
        assert want.by in BY_NAME


@pytest.mark.slow
@AT_ANY_PACE
@given(CLUSTERS, ROOMS)
def test_room(jobs, nodes):
    """What all jobs together grow by, beyond what they hold, their quorums and resizes under way, is free."""
    wants = size(jobs, free_on(nodes))
    for resource in ("workers", "gpu"):
        grown = sum(
            one.worker.get(resource, 0.0) * max(0, wants[one.name].size - max(one.held, one.min))
            for one in jobs
            if not one.in_flight and not (one.want and one.since_change < one.parameters.hold)
        )
        assert grown <= sum(node[resource] for node in nodes)


@AT_ANY_PACE
@given(CLUSTERS, ROOMS, some.randoms(use_true_random=False))
def test_the_order_of_jobs_does_not_matter(jobs, nodes, chance):
    """The same jobs in another order get the same."""
    shuffled = list(jobs)
    chance.shuffle(shuffled)

    assert size(shuffled, free_on(nodes)) == size(jobs, free_on(nodes))


@AT_ANY_PACE
@given(CLUSTERS, ROOMS)
def test_who_does_not_change(jobs, nodes):
    """A job with a resize under way, or just behind it, keeps its size."""
    wants = size(jobs, free_on(nodes))
    for one in jobs:
        if one.want and (one.in_flight or one.since_change < one.parameters.hold):
            assert wants[one.name].size == max(one.min, min(one.want, one.max))


def played(jobs, room, asked=200):
    """Sizes of jobs over time, each of which gets what was decided before the next call; gives the states."""
    states = []
    for _ in range(asked):
        free = room - sum(one.held for one in jobs)
        wants = size(jobs, slots(free))
        jobs = [
            JobView(
                **{f: getattr(one, f) for f in one.__struct_fields__}
                | dict.fromkeys(("size", "held", "want"), wants[one.name].size)
            )
            for one in jobs
        ]
        states.append(tuple(one.size for one in jobs))
        assert sum(states[-1]) <= room
    return states


@pytest.mark.parametrize(
    ("sizes", "ends"), [((1, 1), (4, 4)), ((3, 2), (4, 4)), ((7, 1), (5, 3)), ((1, 7), (3, 5))]
)
def test_jobs_that_scale_alike_share_alike(sizes, ends):
    """Of two like jobs the smaller grows first, and takes over from the larger while it gains more than twice; then
    nothing moves.
    """
    jobs = [job(name=f"team/{number}", size=at, max=8) for number, at in enumerate(sizes)]
    states = played(jobs, 8)

    assert states[-1] == ends
    assert len(set(states[20:])) == 1


def test_room_goes_where_it_gains_most():
    """Of two jobs of one size, the one that scales gets the room."""
    flat = job(name="team/flat", min=2, size=2, measured=seen({1: 100.0, 2: 110.0}))
    steep = job(name="team/steep", size=2, measured=seen({1: 100.0, 2: 200.0}))
    wants = size([flat, steep], slots(3))

    assert (wants["team/flat"].size, wants["team/steep"].size) == (2, 5)


@pytest.mark.parametrize("policy", sorted(BY_NAME))
def test_rates_that_no_job_makes(policy):
    """What is nothing beside what was measured of another size is a rate all the same, and every job has its answer."""
    strange = job(policy, name="team/strange", size=3, measured=seen({2: 1e15, 3: 0.01}), remaining=1e6)
    wants = size([strange, job(name="team/b", size=2)], slots(4))

    assert wants.keys() == {"team/strange", "team/b"}
    assert wants["team/b"].size > 2


def test_a_quorum_comes_first():
    """Room for a job's quorum is not given to the surplus of another, though nothing of it has a seat yet."""
    waiting = job(name="team/new", min=3, held=0)
    wants = size([job(name="team/old", size=2), waiting], slots(4))

    assert wants["team/new"].size == 3
    assert wants["team/old"].size == 3


def test_surplus_moves_one_at_a_time():
    """When nothing is free, one worker of the job that loses least is given up for one that gains more; never of a
    quorum.
    """
    rich, poor = job(name="team/rich", size=6, max=8), job(name="team/poor", size=1, max=8)

    assert size([rich, poor], slots(0))["team/rich"].size == 5
    assert size([job(name="team/rich", size=6, min=6, max=8), poor], slots(0))["team/rich"].size == 6


def test_nothing_is_given_up_in_vain():
    """Surplus whose room would not hold the other's worker stays: other devices, a smaller pod, a stated size."""
    poor = job(name="team/poor", size=1, worker={"workers": 1.0, "gpu": 1.0})
    for giver in (
        job(name="team/rich", size=6),
        job("schedule", name="team/rich", size=6, schedule=(Stage(0.0, 6),)),
    ):
        assert size([giver, poor], slots(0))["team/rich"].size == 6


def test_small_differences_move_nobody():
    """Four and two of six: a third would gain the one half what the fourth loses less than twice; nothing moves."""
    jobs = [job(name="team/a", size=4), job(name="team/b", size=2)]

    assert played(jobs, 6, asked=20)[-1] == (4, 2)


def test_nodes_and_not_sums():
    """Two halves on two nodes are no room for one worker."""
    halves = free_on([{"workers": 0.5}, {"workers": 0.5}])

    assert size([job(size=2)], halves)["team/a"].size == 2


def test_room_that_is_not_known():
    """Without knowledge of the room every job asks for what it likes; the pods wait at their gates."""
    assert size([job(size=2)], UNLIMITED)["team/a"].size == 16


def test_whole_steps_or_nothing():
    """A search that goes by whole nodes grows by whole nodes."""
    picture = job("efficiency", {"step": 4}, min=4, size=4, measured=seen({4: 400.0}))

    assert size([picture], slots(3))["team/a"] == Want(
        size=4, reason="best so far 4, trying 8; no free capacity for 8", by="efficiency"
    )
    assert size([picture], slots(4))["team/a"].size == 8


def test_two_jobs_on_six_slots():
    """The second job of four begins with what is left of six, and grows when the first one ends."""
    first, second = job(name="team/1", max=4, size=4), job(name="team/2", max=4)
    wants = size([first, second], slots(2))
    assert (wants["team/1"].size, wants["team/2"].size) == (4, 2)

    assert size([job(name="team/2", max=4, size=2)], slots(4))["team/2"].size == 4


@pytest.mark.parametrize("seed", range(3))
def test_many_jobs_settle(seed):
    """Twenty jobs on forty slots come to rest within their bounds, and use all of it."""
    chance = random.Random(seed)
    jobs = [
        job(name=f"team/{number}", min=1, max=chance.randint(2, 8), size=1, held=1) for number in range(20)
    ]
    states = played(jobs, 40, asked=80)

    assert sum(states[-1]) == 40
    assert len(set(states[60:])) == 1
