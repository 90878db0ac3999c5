"""Batch, rate and environment of a round, as the size and the schedule have them."""

import msgspec
import pytest

from scheduler.elastic.job import Stage
from scheduler.elastic.job.spec import Batch, BatchMode, Checkpoint
from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import Pod, World


def test_batch_and_rate_follow_the_size() -> None:
    """capped: each takes its own up to the limit, which is then shared out; the rate follows the global batch."""
    world = a_job(2, max_workers=4, batch=Batch(mode=BatchMode.CAPPED, per_worker=32, limit=100))
    told = []
    for size in (3, 4):
        world.size(size)
        assert world.run(20, lambda size=size: world.trains(size))
        answers = sorted(
            world.sentences(job_effects.Publish)[-1].assignments.values(), key=lambda one: one.rank
        )
        told.append([(one.batch.local, one.batch.global_, one.lr_scale) for one in answers if one.batch])

    assert told == [[(32, 96, 1.5)] * 3, [(25, 100, 100 / 64)] * 4]


def test_status_says_what_rank_0_takes() -> None:
    """fixed, three passes on two workers: rank 0 takes two of them, and not half of the samples."""
    world = a_job(2, max_workers=2, batch=Batch(mode=BatchMode.FIXED, per_worker=32, limit=96))
    told = {one.rank: one.batch for one in world.sentences(job_effects.Publish)[-1].assignments.values()}

    assert told[0] is not None
    assert world.status.batch is not None
    assert (world.status.batch.local, told[0].local, told[0].accumulate) == (64, 64, 2)


def test_a_ramp_that_was_changed_is_the_same_for_all() -> None:
    """Who was there before the user changed it ramps like the newcomer, or their weights would part."""
    batch = Batch(per_worker=32, ramp_steps=500)
    world = a_job(2, max_workers=3, batch=batch)
    world.change(batch=msgspec.structs.replace(batch, ramp_steps=20))
    world.size(3)

    assert world.run(20, lambda: world.trains(3))
    answers = world.sentences(job_effects.Publish)[-1].assignments.values()
    assert [one.ramp_steps for one in answers] == [20, 20, 20]


def test_a_phase_of_the_schedule_changes_the_batch_without_a_new_size() -> None:
    """Its environment and batch reach everybody in a round of the same people."""
    stages = (Stage(epoch=0.0, env={"LR": "1"}), Stage(epoch=0.6, env={"LR": "0.1"}, batch=64))
    world = a_job(2, schedule=stages, batch=Batch(per_worker=32))
    assert world.run(
        30, lambda: world.status.last_resize is not None and world.status.last_resize.cause == "NextPhase"
    )

    answer = next(iter(world.sentences(job_effects.Publish)[-1].assignments.values()))
    assert (answer.env, answer.batch and answer.batch.global_, answer.sync) == ({"LR": "0.1"}, 128, False)


def an_older_state(disk: int, **fields: object) -> World:
    """A job in the second phase of its schedule, from epoch 1 on, whose gang is lost and begins again from a checkpoint
    of so many steps; a hundred are an epoch.
    """
    stages = (Stage(epoch=0.0, env={"PHASE": "first"}), Stage(epoch=1.0, env={"PHASE": "second"}, batch=64))
    world = a_job(
        2, schedule=stages, batch=Batch(per_worker=32), checkpoint=Checkpoint(path="/ckpt"), **fields
    )
    assert world.run(60, lambda: world.steps() >= 150)
    assert phase(world) == ("second", 128)
    world.disk, world.disk_weights = disk, "disk"
    for pod in world.members():
        pod.says["checkpoint_step"] = float(disk)
    world.run(2)
    for pod in world.members():
        world.end(pod, 1, None)
    assert world.run(60, lambda: world.trains(2) and world.status.restarts == 1)
    return world


def phase(world: World) -> tuple[str, int | None]:
    record = world.status.assignment
    assert record is not None
    return record.env["PHASE"], record.global_batch


@pytest.mark.parametrize("restarted", [False, True])
def test_who_begins_again_from_an_older_state_goes_back_to_its_phase(*, restarted: bool) -> None:
    """What was told of a state that is lost counts no more once the members tell of theirs; a phase lasts as long as it
    did the first time.
    """
    world = an_older_state(disk=40)
    if restarted:
        world.die(1.0)
    assert world.run(10, lambda: phase(world) == ("first", 64))
    view = world.membership.wishes(world.now)
    assert view is not None
    assert view.epoch is not None
    assert view.epoch < 0.8
    number = world.status.round
    world.size(3)
    assert world.run(10, lambda: world.trains(3))
    assert phase(world) == ("first", 96)

    assert world.run(30, lambda: phase(world) == ("second", 192))
    assert world.steps() >= 100
    assert world.status.round == number + 2


def test_who_begins_again_in_the_same_phase_stays_in_it() -> None:
    """However much older the state is: no round is made for it."""
    world = an_older_state(disk=110)
    number = world.status.round
    world.run(20)

    assert (phase(world), world.status.round) == (("second", 128), number)


def test_a_phase_lasts_while_nobody_tells_the_epoch_of_a_state_that_was_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A script that tells of whole epochs alone says 0 until the end of one."""
    beat = World._beat

    def whole(self: World, pod: Pod) -> None:
        made = pod.step
        pod.step = made - made % 100 if self.status.restarts else made
        beat(self, pod)
        pod.step = made

    monkeypatch.setattr(World, "_beat", whole)
    world = an_older_state(disk=20)
    number = world.status.round
    world.run(5)
    assert (phase(world), world.status.round) == (("second", 128), number)
