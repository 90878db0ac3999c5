"""Members that hold the others up, and those that only seem to."""

import msgspec
import pytest

from scheduler.elastic.job.spec import Batch, BatchMode
from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support import world as membership_world
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import Pod, World


def test_a_straggler_is_replaced_first_and_then_swapped() -> None:
    """Compute time below 0.8 of the median's speed: a replacement warms up, then one round swaps the two."""
    world = a_job(3)
    slow, before = world.members()[1], world.status.round
    slow.slowness = 2.0

    assert world.run(
        90, lambda: world.status.last_resize is not None and world.status.last_resize.cause == "Straggler"
    )
    assert slow not in world.members()
    assert world.status.workers == 3
    assert world.status.round == before + 1


@pytest.mark.parametrize("behind", [0.0, 7.0])
def test_a_stragglers_replacement_may_take_its_time(behind: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has a seat it is waited for; by the API server's clock, which is another, it is a second or more old."""
    seen = World.seen

    def older(self: World, pod: Pod) -> job_events.WorkerSeen:
        return msgspec.structs.replace(seen(self, pod), since=float(int(pod.made)) - behind)

    monkeypatch.setattr(World, "seen", older)
    world = a_job(3)
    straggler = world.members()[1]
    straggler.slowness = 2.0
    monkeypatch.setattr(membership_world, "START_S", world.limits.straggler_seat + 30.0)

    assert world.run(150, lambda: straggler not in world.members()), world.status.reason
    assert world.status.last_resize is not None
    assert len(world.sentences(job_effects.StartWorker)) == 4


def test_who_is_slow_at_what_takes_no_time_is_no_straggler() -> None:
    """A member whose compute is a sliver of the step delays nobody, though it takes three times the others' time for
    it.
    """
    world = a_job(3)
    world.compute = 0.01
    members, round_ = world.members(), world.status.round
    members[1].slowness = 3.0
    world.run(90)

    assert world.status.round == round_
    assert world.members() == members


@pytest.mark.parametrize(
    ("mode", "limit", "few", "many"), [(BatchMode.FIXED, 1024, 2, 8), (BatchMode.CAPPED, 512, 4, 12)]
)
def test_who_took_more_of_a_step_before_is_no_straggler(
    mode: BatchMode, limit: int, few: int, many: int
) -> None:
    """After growth that makes each one's part smaller all members stay; one that is slow then is found as ever."""
    world = a_job(few, max_workers=many, batch=Batch(mode=mode, per_worker=128, limit=limit))
    world.nodes = [f"n{place}" for place in range(many + 1)]
    world.usual = 128
    world.run(60)
    world.size(many)
    assert world.run(60, lambda: world.trains(many))
    members = world.members()
    world.run(90)
    assert world.members() == members
    assert not [one for one in world.sentences(job_effects.Tell) if one.reason == "Straggler"]

    members[3].slowness = 3.0
    assert world.run(90, lambda: members[3] not in world.members())


def test_a_deal_that_is_uneven_makes_no_straggler() -> None:
    """Three passes on two workers: rank 0 takes two of them, and twice as long."""
    batch = Batch(mode=BatchMode.FIXED, per_worker=32, limit=96)
    world = a_job(2, max_workers=3, batch=batch)
    world.usual = 32
    members = world.members()
    world.run(120)

    assert world.members() == members
    members[0].slowness = 3.0
    assert world.run(90, lambda: members[0] not in world.members())


@pytest.mark.parametrize(
    ("limit", "size", "times"),
    [
        (96, 2, (0.20, 0.19)),
        (160, 3, (0.30, 0.30, 0.20)),
        (224, 4, (0.10, 0.10, 0.10, 0.09)),
        (64, 5, (0.10, 0.10, 0.0, 0.0, 0.0)),
    ],
)
def test_who_ends_before_the_others_is_no_straggler(limit: int, size: int, times: tuple[float, ...]) -> None:
    """Passes dealt 2 and 1, or 1 and 0: of every step a part is constant, so that the smaller share is the slower one by
    the sample; it delays nobody. Nor does who takes no sample.
    """
    batch = Batch(mode=BatchMode.FIXED, per_worker=32, limit=limit)
    world = a_job(size, max_workers=size, batch=batch)
    members = world.members()
    for pod, seconds in zip(members, times, strict=True):
        pod.slowness = seconds / (membership_world.STEP_S * world.compute)
    world.run(90)

    assert world.members() == members
    assert not [one for one in world.sentences(job_effects.Tell) if one.reason == "Straggler"]
