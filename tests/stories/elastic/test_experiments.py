"""The elastic bench on the whole plane with real Horovod, everything much shorter: what must hold on any machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.elastic.experiments import convergence, published, serving, two_jobs
from bench.elastic.experiments.working import Shop
from bench.elastic.roads.ours import Ours
from bench.elastic.stage import Stage, stage

pytestmark = [pytest.mark.plane, pytest.mark.extended, pytest.mark.timeout(900)]

JOB_SECONDS = 10.0


@pytest.fixture(scope="module")
def running(horovod_python: Path) -> Iterator[Stage]:
    with stage(published.SERVING_SLOTS) as one:
        yield one


def test_our_road_joins_and_leaves(running):
    """A worker that was there before and after stands still; the figures without a part are smaller than the whole."""
    turn = Ours(running, "small", 0.0).turn(1, 2)

    for change, sizes in ((turn.join, (1, 2)), (turn.leave, (2, 1))):
        assert (change.longest.before, change.longest.after) == sizes
        assert 0 < change.bare <= change.without_step <= change.seconds


def test_two_elastic_jobs_do_all_their_work(running):
    """The second is submitted while the first trains or starts, and both come to their ends."""
    run = two_jobs.elastic(running, JOB_SECONDS)

    assert run.submitted[0] == 0 < run.submitted[1] < run.first_steps[1] < run.total
    assert two_jobs.LEAST <= max(run.line.values()) <= 2 * two_jobs.WORKERS
    assert 0 < run.use < 1


def test_training_gives_way_to_serving(running):
    """Four slots are taken: training goes on with what is left of them, never below its least."""
    run = serving.run(running, [(2.0, 4)], 20.0)
    counts = list(run.training.values())[:-1]

    assert counts[0] == serving.MOST
    assert min(counts) == run.fewest == published.SERVING_SLOTS - serving.FIRST - 4
    assert max(run.serving.values()) == serving.FIRST + 4


def test_schedule_brings_four_workers_and_every_epoch_has_its_accuracy(running):
    """From the second epoch on four are wanted, and four train when they are warm."""
    shop = Shop(running)
    stages = [{"epoch": 0, "workers": 2}, {"epoch": 1, "workers": 4}]
    spec = {"sizing": {"policy": "schedule", "parameters": {"hold": 1}}, "schedule": stages}
    words = ["--epochs", 10000, "--step-time", convergence.STEP, "--batch", convergence.BATCH]
    try:
        work = shop.submit("schedule", 2, 4, words, spec)
        shop.until(
            lambda: 4 in convergence.summed("schedule", 1, work).sizes, "an epoch with four workers", 600
        )
    finally:
        shop.clear()
    run = convergence.summed("schedule", 1, work)

    assert run.sizes[0] == 2
    assert len(run.accuracies) >= int(max(step["epoch"] for step in work.steps())) - 1
