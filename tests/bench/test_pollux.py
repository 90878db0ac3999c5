"""Pollux's workloads, replayed: the published baseline, the cost of changes, and what short jobs gain."""

import itertools

import pytest

from bench.pollux.cluster import free_of, run
from bench.pollux.elastic import Elastic, Places
from bench.pollux.results import Case, Outcome, as_published, gain, means, simulate
from bench.pollux.tiresias import Tiresias
from bench.pollux.training import MEASURED, PUBLISHED, ROUNDED, Training
from bench.pollux.workload import (
    GPUS,
    NODES,
    POLLUX,
    WORKLOADS,
    applications,
    mean_published,
    published,
    thinned,
    workload,
)
from bench.traces import TraceError

TABLES = ("step_times", "placed_step_times", "effective_batches", "epochs", "total_iterations")


def test_tables():
    """Eight workloads of 160 jobs, each with a known application and three published results."""
    for number in WORKLOADS:
        jobs = workload(number)
        assert len(jobs) == 160
        assert all(job.replicas <= job.application.most for job in jobs)
        assert all(
            published()[policy, number].keys() == {job.name for job in jobs}
            for policy in ("tiresias", "pollux")
        )
    assert mean_published("tiresias") == pytest.approx(4038.2, abs=0.1)


def test_a_bad_table(tmp_path):
    """A workload with an unknown application is rejected, with file, line and column."""
    (tmp_path / "workloads-1.0x").mkdir()
    for name in TABLES:
        (tmp_path / f"{name}.csv").write_text((POLLUX / f"{name}.csv").read_text())
    (tmp_path / "workloads-1.0x" / "workload-1.csv").write_text(
        "name,time,application,num_replicas,batch_size\na,0,gpt,1,8\n"
    )
    with pytest.raises(TraceError, match=r"workload-1.csv: line 2: application: 'gpt'"):
        workload(1, tmp_path)


def test_tiresias_as_published():
    """Under Tiresias each of the 1,280 jobs ends in the second that was published."""
    assert [as_published(number) for number in WORKLOADS] == [160] * 8


def test_tiresias_not_rounded():
    """Without rounding epochs, the mean of Tiresias is within 1% of the published one, and no job is resized often."""
    own = means([simulate(Case("Tiresias", PUBLISHED, rigid=True), number) for number in WORKLOADS])

    assert own.mean == pytest.approx(mean_published("tiresias"), rel=0.01)
    assert own.resizes < 0.5


def test_epochs_end_at_whole_seconds():
    """With rounding, a job's epochs take whole seconds, and the job ends with the last one."""
    job = next(job for job in workload(1) if job.application.name == "ncf")
    one = Training(job, ROUNDED)
    one.placed((0,), 0.0)
    now = 0.0
    while one.ended is None:
        one.advance(now, 60.0)
        now += 60.0
    pace = job.application.seconds((1,))

    assert one.ended == ROUNDED.idle + sum(round(epoch * pace) for epoch in job.application.epochs)
    assert (one.left, one.ends, one.seats) == (0.0, [], ())


def test_what_a_change_costs():
    """Newcomers start beside the training, which pauses when they join; at the published cost it stops at once."""
    job = next(job for job in workload(1) if job.application.name == "cifar10")
    pace = {count: job.application.seconds((count,)) for count in (1, 2)}
    made = {}
    for cost in (MEASURED, PUBLISHED):
        one = Training(job, cost)
        one.placed((0,), 0.0)
        one.advance(0.0, 60.0)
        before = one.left
        one.placed((0, 0), 60.0)
        one.advance(60.0, 60.0)
        made[cost.name] = before - one.left

    assert made["measured"] == pytest.approx(
        MEASURED.warm / pace[1] + (60 - MEASURED.warm - MEASURED.idle) / pace[2]
    )
    assert made["published"] == pytest.approx(30 / pace[2])


def test_newcomers_join_their_gang():
    """The planner seats newcomers on the nodes of the members, and a new gang on as few nodes as possible."""
    places = Places()
    free = [GPUS] * NODES
    free[3] = 2

    assert places.near(free, (3, 3), 2) == (3, 3)
    assert len(set(places.near([GPUS] * NODES, (), 8))) == 2


@pytest.mark.parametrize("policy", [Tiresias(), Elastic()])
def test_every_job_ends(policy):
    """Every job of a thinned workload ends, never with more workers than GPUs."""
    done = run(thinned(workload(3), 0.25, 1), policy, MEASURED)

    assert len(done) == 40
    assert all(one.ended > one.job.arrival for one in done)
    assert free_of(done) == [GPUS] * NODES


@pytest.mark.slow
def test_short_jobs_first():
    """Mean completion times are shorter if short jobs are served first, at both costs; the makespan is at most 10%
    longer, and a job is resized fewer than ten times.
    """
    for cost in (MEASURED, PUBLISHED):
        found = {
            first: means([simulate(Case("", cost, short_first=first), n) for n in (1, 5)])
            for first in (True, False)
        }
        assert found[True].mean <= 0.98 * found[False].mean
        assert found[True].makespan <= 1.1 * found[False].makespan
        assert found[True].resizes < 10


def test_thinning_is_seeded():
    """The same seed keeps the same jobs, in order of arrival."""
    jobs = workload(1)
    half = thinned(jobs, 0.5, 7)

    assert half == thinned(jobs, 0.5, 7) != thinned(jobs, 0.5, 8)
    assert len(half) == 80
    assert all(a.arrival <= b.arrival for a, b in itertools.pairwise(half))


def test_intervals():
    """The interval of two means is Student's; a single workload has none."""
    two = [Outcome(mean, 1.0, 1.0, 1.0) for mean in (1.0, 3.0)]

    assert means(two).half == pytest.approx(12.7062, abs=1e-3)
    assert means(two[:1]).half == 0.0


def test_gains():
    """A gain is the mean of each workload's own, with its interval."""
    own, others = ([Outcome(mean, 1.0, 1.0, 1.0) for mean in means] for means in ((1.0, 1.0), (2.0, 4.0)))

    assert gain(own, others) == (62.5, pytest.approx(12.7062 * 12.5, abs=0.01))


def test_steps_between_tables():
    """A placement that was not measured has the step time of the nearest number of nodes. A rotation changes nothing."""
    bert, cifar10 = applications()["bert", 384, 8], applications()["cifar10", 2048, 8]

    assert bert.seconds((2,) * 14 + (1,) * 2) == bert.seconds((15,) + (1,) * 15) == bert.steps[30][16]
    assert cifar10.seconds((1, 4, 3)) == cifar10.seconds((4, 3, 1)) > cifar10.steps[8][3]


def test_a_batch_that_is_not_shared_evenly():
    """Six replicas train 360 instead of 384 samples, so that they need more iterations, which count as longer ones."""
    six, eight = (applications()["bert", 384, tuned] for tuned in (6, 8))

    assert six.iterations == pytest.approx(507.0)
    assert eight.iterations == pytest.approx(476.04)
    assert eight.steps[6][2] * eight.iterations == pytest.approx(six.steps[6][2] * six.iterations)
    assert six.seconds((4, 2)) * six.iterations == pytest.approx(eight.seconds((2, 4)) * eight.iterations)
