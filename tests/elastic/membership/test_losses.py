"""Losses: every row of what can happen to a worker, and how long the others stand still for it."""

import itertools
from collections.abc import Callable

import msgspec
import pytest

from scheduler.elastic.job import Phase, Spec, encode_status
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.job.status import Barred, Resize
from scheduler.elastic.membership import Limits, effects, events, roll
from tests.elastic.membership import world as membership_world
from tests.elastic.membership.world import COLLECTIVE_S, TEMPLATE, World


def a_job(size: int = 3, **fields: object) -> World:
    """A job of this size that trains, two of them its quorum."""
    fields = {"min_workers": 2, "max_workers": 6, "template": TEMPLATE, **fields}
    world = World(Spec(**fields))  # type: ignore[arg-type]
    world.size(size)
    assert world.run(60, lambda: world.trains(size))
    world.run(5)
    return world


def recovers(world: World, size: int, within: float) -> float:
    """Seconds until a round of this size has taken a step."""
    before, number = world.now, world.status.round
    steps = max(pod.commit for pod in world.pods.values())
    assert world.run(
        within, lambda: world.status.round > number and world.trains(size) and world.steps() >= steps
    ), world.status.reason
    return world.now - before


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_killed_worker_costs_less_than_a_second(rank: int) -> None:
    """Whoever is killed, the others go on within a second, from their last commit."""
    world = a_job(3)
    world.kill(world.members()[rank])

    assert recovers(world, 2, within=1.5) <= 1.5


def test_a_killed_worker_is_back_soon() -> None:
    """A process that a signal killed is started again in its pod, and joins as a newcomer."""
    world = a_job(3)
    pod = world.members()[1]
    world.kill(pod)

    assert recovers(world, 3, within=10)
    assert [one.name for one in world.members()][-1] == pod.name


def test_what_comes_after_the_training_is_waited_for() -> None:
    """One rank exports for longer than any limit of a training, the others have ended: nobody is killed, and the job has
    succeeded when it has ended too.
    """
    world = a_job(3)
    first, *others = world.members()
    world.export(first)
    for pod in others:
        world.end(pod, 0, None)
    world.run(2 * max(world.limits.hang, world.limits.save))

    assert (world.phase, first.child) == (Phase.FINISHING, "exporting")
    assert world.status.reason == f"the training has come to its end; {first.name} still at work"
    world.end(first, 0, None)
    assert world.run(10, lambda: world.phase is Phase.SUCCEEDED)


def test_one_that_exports_and_is_not_heard_any_more_is_not_waited_for() -> None:
    """Its node is lost for good, and nobody takes its pod away."""
    world = a_job(3)
    first, *others = world.members()
    world.export(first)
    for pod in others:
        world.end(pod, 0, None)
    world.run(10)
    world.lose_node(first)
    first.evicted_at = None

    assert world.run(world.limits.save + 60, lambda: world.phase is Phase.SUCCEEDED), world.status.reason


def test_all_may_do_something_else_after_the_training() -> None:
    """Nobody hangs who has come to the end."""
    world = a_job(3)
    members = world.members()
    for pod in members:
        world.export(pod)
    world.run(2 * world.limits.hang)

    assert {pod.child for pod in members} == {"exporting"}
    world.finish()
    assert world.run(10, lambda: world.phase is Phase.SUCCEEDED)


def test_who_waits_for_one_that_has_ended_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that leaves the training before the others lets them wait in a collective; the job has come to its end."""
    monkeypatch.setattr(World, "limits", Limits(start=120.0, hang=60.0, save=30.0))
    world = a_job(3)
    first, *others = world.members()
    for pod in others:
        world.hang(pod)
    world.end(first, 0, None)

    assert world.run(world.limits.save + 60, lambda: world.phase is Phase.SUCCEEDED)
    assert world.status.reason.endswith("did not")


def test_a_worker_that_is_killed_again_and_again_loses_its_pod() -> None:
    """After two new processes the pod goes, and another one takes its place."""
    world = a_job(3)
    pod = world.members()[1]
    for _ in range(3):
        world.kill(pod)
        world.run(10)

    assert pod.uid not in world.pods
    assert world.run(30, lambda: world.trains(3))


def test_a_worker_that_fails_is_replaced_by_another_pod() -> None:
    """A process that ends with a code of its own is not started again: its pod goes, a new one comes."""
    world = a_job(3)
    pod = world.members()[2]
    world.end(pod, 1, None)

    assert recovers(world, 2, within=1.5)
    assert recovers(world, 3, within=15)
    assert pod not in world.members()


def test_a_frozen_process_is_killed_after_the_grace() -> None:
    """An agent that sees its process stopped says so: it is given up seconds before any collective times out."""
    world = a_job(3)
    frozen = world.members()[1]
    world.freeze(frozen)

    assert recovers(world, 2, within=COLLECTIVE_S) < COLLECTIVE_S - 3
    assert any(one.uid == frozen.uid for one in world.sentences(effects.Abort))


def test_a_lost_node_is_noticed_by_silence() -> None:
    """A host that is gone without a word: five seconds without a beat; the others come when their collective fails."""
    world = a_job(3)
    gone = world.members()[0]
    world.lose_node(gone)

    assert recovers(world, 3, within=COLLECTIVE_S + 4) <= COLLECTIVE_S + 4
    assert gone not in world.members()
    told = [one.message for one in world.sentences(effects.Tell) if one.reason == "WorkerLost"]
    assert told == [f"{gone.name} has given no sign of life for 5 s"]


def test_a_hung_main_thread_is_named() -> None:
    """Everybody waits in a collective but one: that one is the culprit, after a minute, and it alone is killed."""
    world = a_job(3)
    culprit = world.members()[1]
    world.hang(culprit)

    assert recovers(world, 2, within=75) > 60
    assert [one.uid for one in world.sentences(effects.Abort)] == [culprit.uid]


@pytest.mark.parametrize("size", [2, 6])
def test_how_long_a_hang_is_is_worked_out_once_a_look(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by the steps of all members: worked out for each of them, a ring of some hundred would take the master's
    time.
    """
    world = a_job(size)
    known, asked = roll.step_s, list[float]()
    monkeypatch.setattr(roll, "step_s", lambda s: asked.append(world.now) or known(s))
    world.handle(events.Elapsed())

    assert len(asked) <= 2


def test_a_validation_of_some_minutes_is_no_hang() -> None:
    """One rank is busy outside of any collective, the others wait for it in one; by default it has ten minutes."""
    world = a_job(3)
    world.limits = Limits()
    world.begin()
    world.run(5)
    busy = world.members()[0]
    world.hang(busy)
    world.run(540)
    busy.hung = False
    world.run(5)

    assert world.trains(3)
    assert not world.sentences(effects.Abort)


def test_slow_steps_are_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten steps are waited for, also while beats tell of none: most do not where a step is longer than a second."""
    monkeypatch.setattr(membership_world, "STEP_S", 10.0)
    world = World(Spec(min_workers=3, max_workers=6, template=TEMPLATE))
    assert world.run(60, lambda: world.steps() > 3)
    world.run(2)
    world.hang(world.members()[1])
    world.run(90)
    assert not world.sentences(effects.Abort)

    assert world.run(20, lambda: bool(world.sentences(effects.Abort)))


def test_survivors_below_the_quorum_hold_their_state() -> None:
    """Fewer than the quorum do not train; they wait with their state, and nothing is lost when a replacement comes."""
    world = a_job(2)
    steps = max(pod.commit for pod in world.pods.values())
    survivor = world.members()[0]
    world.end(world.members()[1], 1, None)
    world.run(1)

    assert world.phase in {Phase.QUEUED, Phase.STARTING, Phase.RESIZING}
    assert world.status.workers == 0
    assert world.run(15, lambda: world.trains(2))
    assert world.members()[0] is survivor
    assert world.steps() >= steps
    assert world.status.restarts == 0


def test_when_all_are_lost_the_gang_begins_again_from_its_checkpoint() -> None:
    """Nobody is left: a new gang loads the checkpoint, and that is counted."""
    world = a_job(2, checkpoint=Checkpoint(path="/ckpt"))
    world.disk = 15
    for pod in list(world.members()):
        world.end(pod, 1, None)

    assert world.run(30, lambda: world.trains(2))
    assert world.status.restarts == 1
    assert world.steps() >= 15
    assert next(iter(world.sentences(effects.Publish)[-1].assignments.values())).restore == "/ckpt"


def test_a_job_that_fails_too_often_ends() -> None:
    """A script that ends badly in every process ends the job after spec.maxRestarts, with its last words; the next
    master says the same.
    """
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE, max_restarts=2))

    def crash_all() -> bool:
        for pod in world.pods.values():
            pod.crashes = True
        return world.phase is Phase.FAILED

    assert world.run(300, crash_all), world.status.reason
    assert "spec.maxRestarts" in world.status.reason
    assert "ended with code 1: the end" in world.status.reason
    assert world.run(40, lambda: not world.pods)
    before = {one.type: one for one in world.status.conditions}
    assert before["Failed"].reason == "TooManyRestarts"

    world.stored = encode_status(world.status)
    world.begin()
    assert {one.type: one for one in world.status.conditions} == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pod: setattr(pod, "never_ready", True),
        lambda pod: setattr(pod, "crashes", True),
    ],
)
def test_a_newcomer_that_never_gets_ready_is_bounded(spoil: Callable[[object], None]) -> None:
    """Members train on, the newcomer is given up, its room released and its node avoided; the next one joins."""
    world = a_job(2)
    world.size(3)
    newcomer = next(pod for pod in world.pods.values() if pod not in world.members())
    spoil(newcomer)
    round_before = world.status.round

    assert world.run(200, lambda: newcomer.uid not in world.pods), world.status.reason
    assert world.status.round == round_before, "members were not interrupted"
    assert world.run(30, lambda: world.trains(3)), world.status.reason
    assert newcomer.node not in {pod.node for pod in world.members()}


def test_an_image_that_cannot_be_pulled_is_shown_and_given_up() -> None:
    """The reason stands in the status; after a minute the pod goes."""
    world = a_job(2)
    world.size(3)
    newcomer = next(pod for pod in world.pods.values() if pod not in world.members())
    newcomer.broken = "ErrImagePull: no such image"
    world.run(2)

    shown = next(one for one in world.status.members if one.uid == newcomer.uid)
    assert shown.reason == "ErrImagePull: no such image"
    assert world.run(75, lambda: newcomer.uid not in world.pods)
    told = [one.message for one in world.sentences(effects.Tell) if one.reason == "WorkerLost"]
    assert told == [f"{newcomer.name} cannot start: ErrImagePull: no such image"]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_those_that_fail_together_fail_once(count: int) -> None:
    """However many workers one cause takes, the next ones start within a second; pauses double by tries, not by
    workers.
    """
    world = a_job(6)
    before = len(world.sentences(effects.StartWorker))
    for pod in world.members()[-count:]:
        world.end(pod, 1, None)

    assert world.run(1.5, lambda: len(world.sentences(effects.StartWorker)) == before + count)


@pytest.mark.parametrize("least", [1, 4])
def test_pods_that_are_refused_together_are_refused_once(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota that is full for four is full for one: it is tried again after pauses that double."""
    tries: list[float] = []

    def refused(world: World, effect: effects.StartWorker) -> None:
        tries.append(world.now)
        world.later(0.1, lambda: world.handle(events.StartRefused(effect.number, "exceeded quota")))

    monkeypatch.setattr(World, "_startworker", refused)
    world = World(Spec(min_workers=least, max_workers=least, template=TEMPLATE))
    world.run(200)
    pauses = [
        later - before for before, later in itertools.pairwise(sorted(set(tries))) if later - before > 0.5
    ]

    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 64], abs=0.5)


def refuse(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    """The quota takes no pod of this role any more."""
    make = World._startworker

    def asked(world: World, effect: effects.StartWorker) -> None:
        if effect.role != role:
            make(world, effect)
        else:
            world.later(0.1, lambda: world.handle(events.StartRefused(effect.number, f"no {role} any more")))

    monkeypatch.setattr(World, "_startworker", asked)


def spoil(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    """Whatever is started in this role fails."""
    make = World._startworker

    def asked(world: World, effect: effects.StartWorker) -> None:
        make(world, effect)
        list(world.pods.values())[-1].crashes = effect.role == role

    monkeypatch.setattr(World, "_startworker", asked)


def starts(world: World, role: str) -> int:
    return sum(one.role == role for one in world.sentences(effects.StartWorker))


@pytest.mark.parametrize("trouble", [refuse, spoil])
def test_a_core_waits_for_no_failures_of_surplus(
    trouble: Callable[[pytest.MonkeyPatch, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often surplus was refused or has failed, the quorum is whole again as soon as without it; and failures of
    cores that are a minute of training apart are in no row, whatever surplus does.
    """
    world = a_job(2)
    world.nodes = [f"n{place}" for place in range(200)]  # those on which surplus fails are avoided
    trouble(monkeypatch, "surplus")
    world.size(6)
    world.run(700)
    assert world.trains(2)
    for _ in range(4):
        before = starts(world, "core")
        world.end(world.members()[1], 1, None)
        assert world.run(1.5, lambda before=before: starts(world, "core") == before + 1), world.status.reason
        assert world.run(15, lambda: world.trains(2)), world.status.reason
        world.run(world.limits.steady + 5)


def test_surplus_waits_for_failures_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its quorum a job has no use for it: it is made again with the next core."""
    refuse(monkeypatch, "core")
    world = World(Spec(min_workers=2, max_workers=4, workers=4, template=TEMPLATE))
    world.run(40)
    assert (starts(world, "surplus"), len(world.pods)) == (2, 2)
    for pod in list(world.pods.values()):
        world.delete(pod)
    cores = starts(world, "core")
    assert world.run(60, lambda: starts(world, "surplus") > 2)
    assert starts(world, "core") > cores


def test_what_the_next_start_waits_for_is_told_of_each_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """When, after how many failures and after which: of surplus while that is missing, of cores while they are."""
    world = a_job(2)
    refuse(monkeypatch, "surplus")
    world.size(6)
    world.run(100)
    coming = world.status.next_change
    assert coming is not None
    assert coming.at is not None
    assert (coming.reason, coming.at > world.now) == ("the next start of surplus, after failures", True)
    wait = f"the next start of surplus is in {coming.at - world.now:.0f} s, after 8 failures in a row"
    assert world.status.reason == f"{wait}: no surplus any more"

    world.size(2)
    world.run(2)
    assert (world.status.reason, world.status.next_change) == ("2 wanted by test: the test says so", None)

    refuse(monkeypatch, "core")
    world.size(6)
    world.end(world.members()[1], 1, None)
    world.run(4)
    assert "the next start of core is in " in world.status.reason
    assert ": no core any more" in world.status.reason
    assert world.status.next_change is not None
    assert world.status.next_change.reason == "the next start of core, after failures"


@pytest.mark.parametrize("after", [60.0, 100.0])
def test_pods_that_are_refused_late_are_refused(after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the API server was tried before it was told, also beyond the time in which the pod should have been
    seen: people hear why, and the pauses before the next tries double.
    """
    tries: list[float] = []

    def refused(world: World, effect: effects.StartWorker) -> None:
        tries.append(world.now)
        world.later(after, lambda: world.handle(events.StartRefused(effect.number, "failed calling webhook")))

    monkeypatch.setattr(World, "_startworker", refused)
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    world.run(3000)
    told = [effect.message for effect in world.sentences(effects.Tell)]
    pauses = [later - before for before, later in itertools.pairwise(sorted(set(tries)))]

    assert set(told) == {"the API server made no pod: failed calling webhook"}
    assert "failed calling webhook" in world.status.reason
    assert max(pauses) > 3 * after


def test_a_pod_that_is_seen_late_was_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first answer was lost, and what a later try is told says nothing of the pod that is there."""
    asked: list[effects.StartWorker] = []
    monkeypatch.setattr(World, "_startworker", lambda _, effect: asked.append(effect))
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.run(world.limits.unseen + 5)
    late, again = asked
    for effect in (late, again):
        world.handle(events.WorkerSeen(f"u{effect.number}", f"w{effect.number}", number=effect.number))
    world.handle(events.StartRefused(late.number, "failed calling webhook"))

    assert world.sentences(effects.Tell) == []


def test_failures_that_are_far_apart_are_in_no_row() -> None:
    """A worker that fails after others did, long ago, is replaced as soon as the first of them was."""
    world = a_job(3)
    for _ in range(6):
        before = len(world.sentences(effects.StartWorker))
        world.end(world.members()[2], 1, None)
        assert world.run(1.5, lambda before=before: len(world.sentences(effects.StartWorker)) > before)
        assert world.run(30, lambda: world.trains(3))
        world.run(world.limits.steady + 5)


def test_newcomers_that_fail_one_after_the_other_are_in_a_row_though_the_others_train() -> None:
    """However long each of them takes to fail: the pauses between them double."""
    world = a_job(2)
    world.size(3)
    world.size_due = float("inf")
    starts: list[float] = []
    while len(starts) < 12:
        for pod in world.pods.values():
            pod.crashes = pod.crashes or pod.round == 0
        before = len(world.sentences(effects.StartWorker))
        assert world.run(400, lambda before=before: len(world.sentences(effects.StartWorker)) > before)
        starts.append(world.now)

    assert starts[-1] - starts[-2] >= 250


def test_nodes_are_avoided_twice_as_long_after_each_failure() -> None:
    """Back-off is per node and doubles."""
    world = a_job(2)
    world.nodes = [pod.node for pod in world.members()] + ["bad"]
    world.size(3)
    bars: list[float] = []
    for _ in range(3):
        assert world.run(400, lambda: any(pod.node == "bad" and pod.running for pod in world.pods.values()))
        newcomer = next(pod for pod in world.pods.values() if pod.node == "bad")
        world.end(newcomer, 1, None)
        world.run(0.3)
        bars.append(world.status.barred[0].until - world.now)

    assert bars == pytest.approx([30, 60, 120], abs=1)


@pytest.mark.parametrize(("warm", "bar"), [(True, 0.0), (False, 30.0)])
def test_workers_of_one_node_that_fail_together_are_one_failure_of_it(*, warm: bool, bar: float) -> None:
    """However many they are: members, of which the second failure bars their node, or workers that start, of which the
    first does.
    """
    world = World(Spec(min_workers=8, max_workers=8, template=TEMPLATE), nodes=1)
    world.room = 8
    assert world.run(60, lambda: world.trains(8) if warm else all(pod.running for pod in world.pods.values()))
    for pod in list(world.pods.values()):
        world.end(pod, 1, None)
        world.run(0.2)
    barred = world.status.barred[0]

    assert (barred.failures, barred.until - world.now) == (1, pytest.approx(bar, abs=2))
    assert world.run(60, lambda: world.trains(8)), world.status.reason


def test_failures_of_a_node_that_are_not_together_are_as_many() -> None:
    """A worker that fails anew a few seconds later is another failure of its node."""
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE), nodes=1)
    for _ in range(2):
        assert world.run(60, lambda: world.trains(1))
        world.end(world.members()[0], 1, None)
        world.run(0.3)

    assert world.status.barred[0].failures == 2
    assert world.status.barred[0].until > world.now + 25


@pytest.mark.parametrize("least", [2, 3])
def test_a_worker_that_waits_for_a_node_it_need_not_avoid_any_more_is_made_again(least: int) -> None:
    """Surplus or core: when the bar of the only free node ends, its pod, which could never go there, makes way for
    one that can.
    """
    world = a_job(3, min_workers=least)
    world.nodes = [pod.node for pod in world.members()]
    gone = world.members()[2]
    world.lose_node(gone)
    assert world.run(30, lambda: any(pod.gated for pod in world.pods.values()))
    first = next(pod for pod in world.pods.values() if pod.gated)

    assert world.run(60, lambda: world.trains(3)), world.status.reason
    assert first.avoid == (gone.node,)
    assert first.uid not in world.pods
    assert gone.node in {pod.node for pod in world.members()}
    assert world.status.restarts == 0


def test_a_master_whose_clock_was_ahead_bars_no_node_for_longer_than_any() -> None:
    """What it wrote is in the future by a day: a node is avoided for an hour at the most, no change is to come."""
    world = a_job(2)
    ahead = world.now + 86400.0
    resized = Resize(before=1, to=2, cause="grown", at=ahead)
    status = msgspec.structs.replace(
        world.status, barred=(Barred("bad", 1, ahead, "failed"),), last_resize=resized
    )
    world.stored = encode_status(status)
    world.begin()
    world.run(5)
    view = world.membership.wishes(world.now)
    assert view is not None
    assert view.since_change >= 4.0
    assert world.status.barred[0].until <= world.now + world.limits.bar_most
    world.run(world.limits.bar_most)
    world.size(3)

    assert world.run(30, lambda: world.trains(3))
    assert world.sentences(effects.StartWorker)[-1].avoid == ()


def test_a_worker_that_waits_may_go_to_a_node_that_is_uncordoned() -> None:
    """What it was made to avoid is no longer about to go: it is made again, at once."""
    world = a_job(2)
    world.nodes = [*(pod.node for pod in world.members()), "other"]
    world.cordon("other")
    world.size(3)
    world.run(5)
    assert [pod.avoid for pod in world.pods.values() if pod.gated] == [("other",)]
    world.uncordon("other")

    assert world.run(15, lambda: world.trains(3)), world.status.reason


def test_a_status_stays_small_when_many_fail_with_long_words() -> None:
    """etcd takes 1.5 MiB, and a status that is larger keeps the next round from ever standing."""
    world = a_job(6)
    healthy = len(msgspec.json.encode(encode_status(world.status)))
    for pod in world.members():
        world.handle(
            events.Exited(pod.uid, 1, None, "", tail=("Fehler: " + "ö" * 4000,) * 3, round=pod.round)
        )
    status = world.status

    assert (len(status.barred), [bool(one.reason) for one in status.members]) == (6, [True] * 6)
    assert len(msgspec.json.encode(encode_status(status))) < 4 * healthy


def test_a_newcomer_that_dies_before_the_round_is_left_out() -> None:
    """It was READY, members were called, it dies: the round begins without it."""
    world = a_job(2)
    world.size(3)
    newcomer = next(pod for pod in world.pods.values() if pod not in world.members())
    assert world.run(20, lambda: any(isinstance(one, effects.Announce) for one in world.told[-3:]))
    world.end(newcomer, 1, None)

    assert world.run(5, lambda: world.trains(2))
    assert world.run(30, lambda: world.trains(3))


def test_a_newcomer_with_other_tensors_is_refused() -> None:
    """A state of another make-up would hang everybody in the first broadcast: its worker never gets into a round."""
    world = a_job(2)
    world.size(3)
    for pod in world.pods.values():
        pod.fingerprint = "abc"
    odd = next(pod for pod in world.pods.values() if pod not in world.members())
    odd.fingerprint = "xyz"
    world.membership._s.fingerprint = "abc"

    assert world.run(20, lambda: odd.uid not in world.pods)
    assert world.trains(2)
    assert "other tensors" in next(
        one.message for one in world.sentences(effects.Tell) if one.reason == "WorkerLost"
    )


def told(world: World, reason: str) -> list[str]:
    return [one.message for one in world.sentences(effects.Tell) if one.reason == reason]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_when_nobody_is_heard_nobody_is_given_up(size: int) -> None:
    """The master is cut off for a minute, and the training goes on: that is told, and changes nothing else."""
    world = a_job(size)
    number, steps = world.status.round, world.steps()
    for pod in world.pods.values():
        pod.cut = True
    world.run(60)
    heard = next(one for one in world.status.conditions if one.type == "MembersHeard")
    assert (world.phase, heard.status, heard.reason) == (Phase.RUNNING, False, "NoBeats")
    for pod in world.pods.values():
        pod.cut = False
    world.run(5)

    assert world.trains(size)
    assert (world.status.round, world.steps() > steps + 200) == (number, True)
    assert not world.sentences(effects.Abort)
    assert len(told(world, "MembersSilent")) == 1
    assert next(one for one in world.status.conditions if one.type == "MembersHeard").status


def test_the_last_one_that_has_the_state_is_not_given_up_for_silence() -> None:
    """A network that heals gives everything back."""
    world = a_job(2)
    gone, kept = world.members()
    world.end(gone, 1, None)
    assert world.run(10, lambda: world.status.workers == 0)
    kept.cut = True
    world.run(20)
    assert kept.uid in world.pods
    kept.cut = False

    assert world.run(30, lambda: world.trains(2)), world.status.reason
    assert kept in world.members()
    assert world.status.restarts == 0


def test_who_is_silent_and_taken_away_is_given_up() -> None:
    """The node of the last one is lost: when its pod is taken away the gang begins again."""
    world = a_job(1, min_workers=1)
    only = world.members()[0]
    world.lose_node(only)
    world.run(30)
    assert world.status.restarts == 0

    assert world.run(60, lambda: world.trains(1) and only not in world.members()), world.status.reason
    assert world.status.restarts == 1
