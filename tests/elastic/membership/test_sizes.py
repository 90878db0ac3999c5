"""Growth, shrinking, leaving, draining, stragglers: changes that nobody loses a step for."""

import msgspec
import pytest

from scheduler.elastic import sizing
from scheduler.elastic.job import Spec, Stage, encode_status
from scheduler.elastic.job.spec import Batch, BatchMode, Checkpoint
from scheduler.elastic.membership import Limits, effects, events
from scheduler.elastic.sizing.parameters import Schedule
from tests.elastic.membership import world as membership_world
from tests.elastic.membership.test_losses import a_job
from tests.elastic.membership.workers import START_S, WARM_S
from tests.elastic.membership.world import STEP_S, TEMPLATE, Pod, World


def test_the_first_round_waits_for_the_quorum() -> None:
    """Nobody trains before as many as the quorum are READY, however many more are wanted."""
    world = World(Spec(min_workers=3, max_workers=3, template=TEMPLATE))
    world.tick()
    slow = next(iter(world.pods.values()))
    slow.never_ready = True
    world.run(20)

    assert not world.sentences(effects.Persist)
    assert slow.name in world.status.reason
    slow.never_ready = False
    assert world.run(10, lambda: world.trains(3))


def test_the_quorum_is_core_and_started_together() -> None:
    """As many cores as the quorum, in one go; what is wanted above it is surplus, with the gain that the policy
    expects.
    """
    world = World(Spec(min_workers=2, max_workers=4, workers=4, template=TEMPLATE))
    starts = world.sentences(effects.StartWorker)

    assert [(one.role, one.gain) for one in starts] == [
        ("core", 0.0), ("core", 0.0), ("surplus", 0.5), ("surplus", pytest.approx(1 / 3)),
    ]  # fmt: skip


def test_members_train_while_newcomers_start() -> None:
    """Nobody is interrupted before all newcomers are READY; then one round takes them all."""
    world = a_job(2)
    first, steps = world.status.round, world.steps()
    world.size(5)
    world.run(3)

    assert world.trains(2)
    assert world.steps() > steps
    assert world.run(10, lambda: world.trains(5))
    assert world.status.round == first + 1


def test_a_late_newcomer_is_not_waited_for_longer_than_its_limit() -> None:
    """The round goes on without it, and another takes it later."""
    world = a_job(2)
    world.size(4)
    late = next(pod for pod in world.pods.values() if pod not in world.members())
    late.never_ready = True

    assert world.run(45, lambda: world.trains(3)), world.status.reason
    late.never_ready = False
    assert world.run(20, lambda: world.trains(4))


def test_old_members_come_before_newcomers() -> None:
    """Rank 0 stays who it was, newcomers come last, and all take over its state."""
    world = a_job(2)
    old = [pod.name for pod in world.members()]
    world.size(4)
    assert world.run(20, lambda: world.trains(4))

    last = world.sentences(effects.Publish)[-1].assignments
    assert [pod.name for pod in world.members()][:2] == old
    assert all(one.sync for one in last.values())


def test_a_shrink_needs_no_sync_and_tells_the_leavers() -> None:
    """Surplus goes first, the youngest of it; who leaves is told so, and who stays skips the broadcast."""
    world = a_job(4)
    names = [pod.name for pod in world.members()]
    world.size(2)
    assert world.run(10, lambda: world.trains(2))

    last = world.sentences(effects.Publish)[-1].assignments
    assert [pod.name for pod in world.members()] == names[:2]
    assert sorted(one.removed for one in last.values()) == [False, False, True, True]
    assert not any(one.sync for one in last.values())
    assert world.run(10, lambda: len(world.pods) == 2)


def test_changes_in_a_row_are_one_round() -> None:
    """What is wanted changes three times within a second: members are interrupted once."""
    world = a_job(4)
    before = world.status.round
    for size in (3, 4, 2):
        world.size(size)
        world.run(0.3)
    assert world.run(10, lambda: world.trains(2))

    assert world.status.round == before + 1


def test_the_user_goes_before_the_policy() -> None:
    """spec.workers, clamped, is the size while it is set."""
    world = a_job(3)
    world.change(workers=50)

    assert world.run(20, lambda: world.trains(6))
    assert world.status.wanted_by == "user"
    assert world.membership.wishes(world.now) is None
    world.change(workers=None)
    assert world.run(20, lambda: world.trains(3))


@pytest.mark.parametrize("before", [None, 2])
def test_a_size_that_was_stated_stands_until_the_policy_speaks(before: int | None) -> None:
    """The user leaves the size to the policy again: whatever that said hours ago, nobody goes before it has looked."""
    world = a_job(2)
    world.want = None  # it is not asked while the user says how many
    if before is None:
        world.membership._s.sized = None
    world.change(workers=6)
    assert world.run(30, lambda: world.trains(6))
    members, starts = world.members(), len(world.sentences(effects.StartWorker))
    world.change(workers=None)
    world.run(10)

    assert world.trains(6)
    assert (world.members(), len(world.sentences(effects.StartWorker))) == (members, starts)
    assert (world.status.wanted, world.status.wanted_by) == (6, "user")
    assert world.status.reason == "6 wanted by user: spec.workers was 6, until the policy speaks"
    view = world.membership.wishes(world.now)
    assert view is not None
    assert view.want == 6
    world.size(3)
    assert world.run(10, lambda: world.trains(3))


def test_a_size_that_was_stated_stands_within_new_bounds_and_for_the_next_master() -> None:
    """What is not allowed any more is not wanted; who reads the spec after the change reads the size in the status."""
    world = a_job(2)
    world.want = None
    world.change(workers=6)
    assert world.run(30, lambda: world.trains(6))
    world.change(workers=None, max_workers=5)
    assert world.run(10, lambda: world.trains(5))
    world.change(workers=4)
    assert world.run(10, lambda: world.trains(4))
    world.stored = encode_status(world.status)
    world.die(2.0)
    world.change(workers=None)
    world.run(20)

    assert world.trains(4)
    assert (world.status.wanted, world.status.wanted_by) == (4, "user")


def test_workers_that_start_for_a_stated_size_go_on_when_it_is_left_to_the_policy() -> None:
    """Not one of them is made again, though the job has not begun."""
    world = World(Spec(min_workers=2, max_workers=6, workers=5, template=TEMPLATE))
    world.run(1)
    world.change(workers=None)

    assert world.run(20, lambda: world.trains(5))
    assert len(world.sentences(effects.StartWorker)) == 5


def test_a_size_that_was_stated_stands_where_a_suspension_is_taken_back() -> None:
    """Some have not gone yet: the job goes on as large as it was."""
    world = a_job(2, checkpoint=Checkpoint(path="/ckpt"))
    world.want = None
    world.change(workers=4)
    assert world.run(30, lambda: world.trains(4))
    world.change(suspend=True)
    world.run(0.3)
    world.change(workers=None)
    world.change(suspend=False)

    assert world.run(30, lambda: world.trains(4))


def test_a_size_that_was_stated_for_a_suspended_job_is_none_when_it_goes_on() -> None:
    """What there is room for by then is the policy's to say; the quorum begins."""
    world = a_job(4)
    world.want = None
    world.change(workers=6)
    assert world.run(30, lambda: world.trains(6))
    world.change(suspend=True)
    assert world.run(60, lambda: not world.pods)
    world.change(workers=None, suspend=False)

    assert world.run(30, lambda: world.trains(2))
    assert world.status.wanted_by == "quorum"


def test_sigterm_is_an_orderly_leave() -> None:
    """A pod that is deleted leaves with the next round; no step is lost, and another takes its place."""
    world = a_job(3)
    leaver, commits = world.members()[2], world.steps()
    world.delete(leaver)

    assert world.run(3, lambda: world.trains(2))
    assert world.steps() >= commits
    assert world.run(20, lambda: world.trains(3))
    assert world.status.restarts == 0
    assert leaver.uid not in world.pods


def test_surplus_that_is_taken_away_is_not_made_again_before_the_policy_has_looked() -> None:
    """Its room is needed more by another: the job is content with less until it is told to grow again."""
    world = a_job(3)
    taken = world.members()[2]
    world.size_due = world.now + 60
    world.delete(taken)
    assert world.run(5, lambda: world.trains(2))
    world.run(10)

    assert len(world.sentences(effects.StartWorker)) == 3
    assert (world.status.wanted, world.status.wanted_by) == (2, "test")
    world.size(3)
    assert world.run(20, lambda: world.trains(3))


def test_a_replacement_that_is_taken_away_is_not_made_again_before_the_policy_has_looked() -> None:
    """It is no newcomer ahead of what is wanted, though with whom it would replace they are more than that."""
    world = a_job(3)
    world.cordon(world.members()[2].node)
    world.run(1)
    world.size_due = world.now + 60
    (replacement,) = (pod for pod in world.pods.values() if pod not in world.members())
    world.delete(replacement)
    world.run(10)

    assert len(world.sentences(effects.StartWorker)) == 4
    assert (world.status.wanted, world.status.wanted_by) == (2, "test")


def test_a_core_worker_that_is_taken_away_is_made_again_at_once() -> None:
    """Without its quorum a job does not train, so nobody is asked."""
    world = a_job(3)
    world.size_due = world.now + 60
    world.delete(world.members()[1])

    assert world.run(2, lambda: len(world.sentences(effects.StartWorker)) == 4)
    assert world.run(20, lambda: world.trains(3))


def test_the_only_one_that_has_the_state_saves_before_it_leaves() -> None:
    """The last holder is told to save to disk; the gang goes on from there, uncounted."""
    from scheduler.elastic.job.spec import Checkpoint

    world = a_job(1, min_workers=1, max_workers=1, checkpoint=Checkpoint(path="/ckpt"))
    steps = world.steps()
    world.delete(world.members()[0])

    assert world.run(30, lambda: world.disk is not None and world.trains(1)), world.status.reason
    assert world.disk is not None
    assert world.disk >= steps
    assert world.steps() >= world.disk
    assert world.status.restarts == 0


def test_a_cordoned_node_is_left_when_a_replacement_is_warm() -> None:
    """The replacement starts elsewhere while everybody trains; then one round swaps the two."""
    world = a_job(3)
    node, before = world.members()[0].node, world.status.round
    world.cordon(node)
    world.run(2)

    assert world.status.workers == 3
    assert world.run(20, lambda: world.trains(3) and node not in {pod.node for pod in world.members()})
    assert world.status.round == before + 1
    assert world.status.last_resize is not None
    assert world.status.last_resize.cause == "drained"


def test_without_room_for_a_replacement_a_drain_shrinks() -> None:
    """No other node is free: after a while the job gives the node back and is smaller, not below its quorum."""
    world = a_job(3)
    world.nodes = [pod.node for pod in world.members()]
    world.cordon(world.members()[2].node)

    assert world.run(40, lambda: world.trains(2)), world.status.reason


def test_a_drain_does_not_take_the_quorum() -> None:
    """At the quorum, a member on a doomed node stays until it is told to leave."""
    world = a_job(2)
    world.nodes = [pod.node for pod in world.members()]
    world.cordon(world.members()[1].node)
    world.run(100)

    assert world.trains(2)


def test_a_newcomer_that_takes_steps_alone_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its script commits once an epoch, and to the first commit it warms up; others train meanwhile. One that takes no
    step, or comes to no commit at all, is given up.
    """
    monkeypatch.setattr(World, "limits", Limits(start=120.0, hang=60.0, warm=1000.0))
    world = a_job(2)
    world.size(3)
    assert world.run(20, lambda: len(world.pods) == 3)
    newcomer = list(world.pods.values())[-1]
    newcomer.never_ready = newcomer.steps_alone = True
    world.run(4 * world.limits.start)
    assert newcomer.uid in world.pods

    newcomer.never_ready = False
    assert world.run(20, lambda: world.trains(3))
    world.size(4)
    assert world.run(20, lambda: len(world.pods) == 4)
    newest = list(world.pods.values())[-1]
    newest.never_ready = newest.steps_alone = True
    assert world.run(1100, lambda: newest.uid not in world.pods)


def test_a_newcomer_that_takes_steps_has_no_less_time_than_one_that_takes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long starts may take by the settings."""
    monkeypatch.setattr(World, "limits", Limits(start=400.0, hang=60.0, warm=100.0))
    world = a_job(2)
    world.size(3)
    assert world.run(20, lambda: len(world.pods) == 3)
    newcomer = list(world.pods.values())[-1]
    newcomer.never_ready = newcomer.steps_alone = True
    world.run(300)

    assert newcomer.uid in world.pods


def test_a_straggler_is_replaced_first_and_then_swapped() -> None:
    """Compute time below 0.8 of the median's speed: a replacement warms up, then one round swaps the two."""
    world = a_job(3)
    slow, before = world.members()[1], world.status.round
    slow.slowness = 2.0

    assert world.run(
        90, lambda: world.status.last_resize is not None and world.status.last_resize.cause == "straggler"
    )
    assert slow not in world.members()
    assert world.status.workers == 3
    assert world.status.round == before + 1


@pytest.mark.parametrize("behind", [0.0, 7.0])
def test_a_stragglers_replacement_may_take_its_time(behind: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has a seat it is waited for; by the API server's clock, which is another, it is a second or more old."""
    seen = World.seen

    def older(self: World, pod: Pod) -> events.WorkerSeen:
        return msgspec.structs.replace(seen(self, pod), since=float(int(pod.made)) - behind)

    monkeypatch.setattr(World, "seen", older)
    world = a_job(3)
    straggler = world.members()[1]
    straggler.slowness = 2.0
    monkeypatch.setattr(membership_world, "START_S", world.limits.straggler_seat + 30.0)

    assert world.run(150, lambda: straggler not in world.members()), world.status.reason
    assert world.status.last_resize is not None
    assert len(world.sentences(effects.StartWorker)) == 4


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
    assert not [one for one in world.sentences(effects.Tell) if one.reason == "Straggler"]

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
    assert not [one for one in world.sentences(effects.Tell) if one.reason == "Straggler"]


def test_bounds_that_tighten_are_obeyed() -> None:
    """maxWorkers below the present size shrinks the job."""
    world = a_job(4)
    world.change(max_workers=3)

    assert world.run(10, lambda: world.trains(3))


def test_batch_and_rate_follow_the_size() -> None:
    """capped: each takes its own up to the limit, which is then shared out; the rate follows the global batch."""
    world = a_job(2, max_workers=4, batch=Batch(mode=BatchMode.CAPPED, per_worker=32, limit=100))
    told = []
    for size in (3, 4):
        world.size(size)
        assert world.run(20, lambda size=size: world.trains(size))
        answers = sorted(world.sentences(effects.Publish)[-1].assignments.values(), key=lambda one: one.rank)
        told.append([(one.batch.local, one.batch.global_, one.lr_scale) for one in answers if one.batch])

    assert told == [[(32, 96, 1.5)] * 3, [(25, 100, 100 / 64)] * 4]


def test_status_says_what_rank_0_takes() -> None:
    """fixed, three passes on two workers: rank 0 takes two of them, and not half of the samples."""
    world = a_job(2, max_workers=2, batch=Batch(mode=BatchMode.FIXED, per_worker=32, limit=96))
    told = {one.rank: one.batch for one in world.sentences(effects.Publish)[-1].assignments.values()}

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
    answers = world.sentences(effects.Publish)[-1].assignments.values()
    assert [one.ramp_steps for one in answers] == [20, 20, 20]


def test_a_phase_of_the_schedule_changes_the_batch_without_a_new_size() -> None:
    """Its environment and batch reach everybody in a round of the same people."""
    stages = (Stage(epoch=0.0, env={"LR": "1"}), Stage(epoch=0.6, env={"LR": "0.1"}, batch=64))
    world = a_job(2, schedule=stages, batch=Batch(per_worker=32))
    assert world.run(
        30, lambda: world.status.last_resize is not None and world.status.last_resize.cause == "schedule"
    )

    answer = next(iter(world.sentences(effects.Publish)[-1].assignments.values()))
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


def early(world: World) -> list[Pod]:
    """Newcomers that wait at the barrier."""
    return [pod for pod in world.pods.values() if pod.round == 0 and pod.child == "asking"]


def ahead_of_time() -> World:
    """Two train, and two more are warm."""
    world = a_job(2)
    before = world.status.round
    world.size(2, ahead=4)
    assert world.run(20, lambda: len(early(world)) == 2)
    world.run(10)
    assert world.trains(2)
    assert world.status.round == before
    return world


def test_newcomers_ahead_of_what_is_wanted_interrupt_nobody() -> None:
    """They warm up, and wait at the barrier; once they are wanted, they need not start any more."""
    world = ahead_of_time()
    assert world.status.wanted == 2
    world.size(4)

    assert world.run(START_S + WARM_S + world.limits.coalesce, lambda: world.trains(4))
    assert len(world.sentences(effects.StartWorker)) == 4


def test_newcomers_ahead_of_what_is_wanted_cost_the_master_no_looks() -> None:
    """Nothing changes while they wait, so a look is as seldom as at any job that trains; not once they are wanted."""
    world = ahead_of_time()
    world.handle(events.Elapsed())
    assert world.membership.next_deadline(world.now) - world.now == pytest.approx(0.5)
    world.size(4)
    assert world.membership.next_deadline(world.now) - world.now == pytest.approx(0.1)


def test_newcomers_ahead_that_are_not_wanted_after_all_go() -> None:
    """They go as they came, without a round."""
    world = ahead_of_time()
    before = world.status.round
    world.size(2)

    assert world.run(20, lambda: len(world.pods) == 2)
    assert world.trains(2)
    assert world.status.round == before


def test_who_is_warm_takes_a_place_that_is_free() -> None:
    """A member dies: one that waits at the barrier is in the next round, and another starts ahead in its stead."""
    world = ahead_of_time()
    world.kill(world.members()[1])

    assert world.run(3, lambda: world.trains(2))
    assert world.run(20, lambda: len(early(world)) == 2)


def test_one_round_takes_who_waited_ahead_and_who_is_about_to_be_ready() -> None:
    """How long the first of them has been warm says nothing: the others are waited for since they are wanted."""
    world = a_job(2)
    world.size(2, ahead=3)
    assert world.run(60, lambda: len(early(world)) == 1)
    world.run(world.limits.newcomers + 5)
    before = world.status.round
    world.size(2, ahead=4)
    world.run(0.5)
    world.size(4)

    assert world.run(20, lambda: world.trains(4))
    assert world.status.round == before + 1


def test_who_is_ready_joins_after_the_limit_though_more_and_more_are_wanted() -> None:
    """Room comes little by little, and those who get it are slow to start: each new wish is no reason to wait anew."""
    world = a_job(2)
    world.size(4)
    ready = next(pod for pod in world.pods.values() if pod not in world.members())
    for want in (5, 6, 7, 8):
        for pod in world.pods.values():
            pod.never_ready = pod.round == 0 and pod is not ready
        world.run(world.limits.newcomers / 2)
        world.size(want)

    assert world.trains(3)


def test_newcomers_ahead_outlive_the_master() -> None:
    """The next one does not know that they were to start; it leaves them alone until the policy has spoken."""
    world = ahead_of_time()
    warm = early(world)
    world.die(3.0)

    world.run(20)
    assert world.masters == 2
    assert early(world) == warm
    assert len(world.sentences(effects.StartWorker)) == 4


def test_newcomers_ahead_that_nobody_wants_after_a_restart_go() -> None:
    """Once the policy has spoken, what it says counts."""
    world = ahead_of_time()
    world.ahead = 0
    world.die(3.0)

    assert world.run(20, lambda: len(world.pods) == 2 and world.trains(2))
    assert world.masters == 2


def test_of_newcomers_ahead_that_are_taken_away_none_is_made_again() -> None:
    """Their room is needed: the others go too, those that train stay as they are."""
    world = ahead_of_time()
    world.size_due = world.now + 60
    world.delete(early(world)[0])
    assert world.run(20, lambda: len(world.pods) == 2)
    world.run(10)

    assert world.trains(2)
    assert world.status.wanted == 2
    assert len(world.sentences(effects.StartWorker)) == 4


@pytest.mark.parametrize("words", [{"workers": 2}, {"max_workers": 2}, {"suspend": True}])
def test_nobody_starts_ahead_where_the_user_says_how_many(words: dict[str, object]) -> None:
    """A size that is set, a maximum, and a suspension hold for newcomers ahead of time, too."""
    world = ahead_of_time()
    world.change(**words)

    assert world.run(20, lambda: not early(world))
    world.run(10)
    assert len(world.sentences(effects.StartWorker)) == 4


def grown() -> World:
    """A job that trained with two workers and then with four."""
    world = a_job(2)
    world.run(10)
    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    world.run(5)
    return world


def test_the_policies_get_a_true_picture() -> None:
    """Size, throughput by size, epochs and what the last resize cost."""
    world = grown()
    view = world.membership.wishes(world.now)

    assert view is not None
    assert (view.name, view.min, view.max, view.size, view.want, view.in_flight) == (
        "ns/job",
        2,
        6,
        4,
        4,
        False,
    )
    assert view.measured[2].mean == pytest.approx(40, rel=0.2)
    assert view.idle is not None
    assert view.idle < 1.5
    assert view.warm == pytest.approx(3.0, abs=0.5)
    assert msgspec.json.encode(view.measured)


@pytest.mark.parametrize("step_s", [1.3, 2.6])
def test_throughput_is_as_the_worker_times_its_steps(step_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 1.3 s takes one beat or two: measured by beats alone it would scatter by half."""
    monkeypatch.setattr(membership_world, "STEP_S", step_s)
    world = a_job(2)
    world.run(60)
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.measured[2].mean == pytest.approx(8 / step_s, rel=0.001)
    assert view.measured[2].error < 0.001


def test_the_last_steps_of_a_size_are_told_at_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size may be left before a beat has told of a second step: whoever comes to the barrier says what is missing."""
    send, heard = World.send, {0}

    def only_the_first(self: World, event: events.Event) -> None:
        if isinstance(event, events.Beat):
            heard.update({event.step} if len(heard) < 3 else ())
            step = min(event.step, max(heard))
            event = msgspec.structs.replace(event, step=step, samples=8.0 * step, step_s=None)
        send(self, event)

    monkeypatch.setattr(World, "send", only_the_first)
    world = a_job(2)
    before = world.membership.wishes(world.now)
    world.size(4)
    assert world.run(20, lambda: world.status.round == 2)
    then = world.membership.wishes(world.now)

    assert before is not None
    assert before.measured == {}
    assert then is not None
    assert then.measured[2].mean == pytest.approx(8 / STEP_S)
    assert then.measured[2].count == 1.0


def test_the_first_step_is_timed_by_who_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of two rounds says how long the first step of the second took: nearer than when we hear of it."""
    world = a_job(2)
    before = world.membership.wishes(world.now)
    monkeypatch.setattr(membership_world, "STEP_S", 2.0)
    for pod in world.members():
        pod.says = {"idle_s": 1.85, "idle_without_step_s": 0.25}
    world.size(4)
    assert world.run(30, lambda: world.trains(4))
    world.run(2)
    view = world.membership.wishes(world.now)

    assert before is not None
    assert 0 < (before.least or 0.0) < 8 / STEP_S
    assert view is not None
    assert view.least == pytest.approx(8 / 1.6)


def test_a_resize_costs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause lasts to the end of a first step, which would have been made all the same."""
    world = a_job(2)
    for pod in world.members():
        pod.says = {"idle_s": 0.75}
    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    world.run(5)
    view = world.membership.wishes(world.now)

    assert world.status.last_resize is not None
    assert world.status.last_resize.idle_seconds == 0.75
    assert view is not None
    assert view.idle == pytest.approx(0.75 - STEP_S)


def test_what_a_resize_costs_does_not_change_from_beat_to_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of steps of three seconds two beats in three say nothing: the last that did counts."""
    monkeypatch.setattr(membership_world, "STEP_S", 3.0)
    world = a_job(2)
    for pod in world.members():
        pod.says = {"idle_s": 3.5}
    world.run(10)
    world.size(4)
    assert world.run(60, lambda: world.trains(4))
    costs = []
    for _ in range(6):
        world.run(1)
        view = world.membership.wishes(world.now)
        costs.append(view.idle if view else None)

    assert costs == pytest.approx([0.5] * 6)


def test_who_tells_of_steps_in_no_time_is_timed_by_its_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker says of itself may be wrong; a window of a second holds steps of more than a millisecond."""
    send = World.send

    def in_no_time(self: World, event: events.Event) -> None:
        told = isinstance(event, events.Beat)
        send(self, msgspec.structs.replace(event, step_s=1e-200) if told else event)

    monkeypatch.setattr(World, "send", in_no_time)
    world = a_job(2)
    world.run(20)
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.measured[2].mean == pytest.approx(8 / STEP_S, rel=0.2)


def test_what_a_resize_cost_is_not_what_the_one_before_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 says what the last change cost from its first step of the round on; others may have told of that step
    before.
    """
    world = a_job(2)
    first, number = world.members()[0], world.status.round
    first.says = {"idle_s": 9.9}
    beat = World._beat
    behind: list[int] = []

    def a_step_later(self: World, pod: Pod) -> None:
        begins = pod is first and pod.round > number and len(behind) < 3
        made = pod.step
        if begins and world.members() and self.status.assignment is not None:
            behind.append(made)
            pod.step = min(made, self.status.assignment.step)
        elif pod is first and pod.round > number:
            pod.says = {"idle_s": 0.6}
        beat(self, pod)
        pod.step = made

    monkeypatch.setattr(World, "_beat", a_step_later)
    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    world.run(5)

    assert behind
    assert world.status.last_resize is not None
    assert world.status.last_resize.idle_seconds == 0.6
    assert [one.idle_s for one in world.sentences(effects.Resized)][-1] == 0.6


def test_a_script_that_tells_of_no_samples_is_measured_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each worker takes one in a step: at four workers twice as many as at two, and status claims no samples per
    second.
    """
    monkeypatch.setattr(World, "counts", 0.0)
    world = grown()
    view = world.membership.wishes(world.now)

    assert view is not None
    assert view.unit == "batches"
    assert view.measured[2].mean == pytest.approx(2 / STEP_S, rel=0.2)
    assert view.measured[4].mean == pytest.approx(2 * view.measured[2].mean, rel=0.2)
    assert world.membership.status(world.now).samples_per_second is None


def test_throughput_is_told_with_four_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """People read it as it stands in status."""
    monkeypatch.setattr(World, "counts", 8 / 3)

    assert grown().status.samples_per_second == 13.33


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
