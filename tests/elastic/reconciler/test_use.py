"""No more workers than the batch has use for."""

import pytest

from scheduler.elastic import sizing
from scheduler.elastic.job import Stage
from scheduler.elastic.job.spec import Batch, BatchMode
from scheduler.elastic.sizing.policy_parameters import Schedule
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import World


def wanted(world: World) -> int:
    """What the job's policy makes of the picture that the membership draws, with room for everybody."""
    view = world.membership.wishes(world.now)
    assert view is not None
    return sizing.size([view], sizing.slots(100))[view.name].size


def a_phase(*stages: Stage, **fields: object) -> World:
    """A job in the first phase of its schedule, of which it has done more than half an epoch."""
    world = a_job(2, max_workers=16, policy="schedule", parameters=Schedule(), schedule=stages, **fields)
    assert world.run(20, lambda: world.steps() >= 60)
    return world


@pytest.mark.parametrize(
    ("batch", "largest"),
    [
        (Batch(mode=BatchMode.FIXED, per_worker=32), 2),
        (Batch(mode=BatchMode.FIXED, per_worker=32, limit=64), 2),
        (Batch(mode=BatchMode.FIXED, per_worker=32, limit=160), 5),
        (Batch(mode=BatchMode.CAPPED, per_worker=32, limit=160), 5),
        (Batch(mode=BatchMode.CAPPED, per_worker=32), 6),
        (Batch(mode=BatchMode.PER_WORKER, per_worker=32, limit=64), 6),
        (Batch(), 6),
    ],
)
def test_no_more_workers_than_the_batch_has_use_for(batch: Batch, largest: int) -> None:
    """The limit is the one by which rounds are dealt: perWorker × minWorkers where fixed states none, none with
    per-worker.
    """
    world = a_job(2, batch=batch)
    world.run(20)

    assert wanted(world) == largest


@pytest.mark.parametrize(("own", "largest"), [(None, 8), (64, 16), (512, 2)])
def test_a_phase_has_as_many_workers_as_its_own_batch_has_use_for(own: int | None, largest: int) -> None:
    """What a phase says of the batch counts in its rounds, so it counts for its size too."""
    batch = Batch(per_worker=128, limit=1024)
    world = a_phase(Stage(epoch=0.0, workers=16, batch=own), batch=batch)

    assert wanted(world) == largest


@pytest.mark.parametrize(("own", "largest"), [(None, 8), (64, 16), (512, 2)])
def test_a_phase_without_a_size_counts_for_every_policy(own: int | None, largest: int) -> None:
    """A phase may state a batch and leave the size to another policy."""
    stages = (Stage(epoch=0.0, batch=own),)
    world = a_job(2, max_workers=16, schedule=stages, batch=Batch(per_worker=128, limit=1024))
    world.run(20)

    assert wanted(world) == largest


@pytest.mark.parametrize(("own", "ahead"), [(None, 8), (64, 16), (512, 4)])
def test_newcomers_of_a_phase_are_as_many_as_its_own_batch_has_use_for(own: int | None, ahead: int) -> None:
    """The phase that begins soon is sized by its own batch; where that needs fewer workers, none goes early."""
    stages = (Stage(epoch=0.0, workers=4), Stage(epoch=1.0, workers=16, batch=own))
    world = a_phase(*stages, batch=Batch(per_worker=128, limit=1024))
    assert wanted(world) == 4
    assert world.run(20, lambda: world.steps() >= 95)

    assert wanted(world) == ahead
