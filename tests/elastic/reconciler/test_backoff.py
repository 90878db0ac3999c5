"""Failures in a row, and how long the next start of each role waits for them."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from scheduler.elastic.job import Spec
from scheduler.elastic.reconciler import Reconciler, Timeouts, job_effects, job_events
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import TEMPLATE, World


@pytest.mark.parametrize("count", [1, 2, 4])
def test_those_that_fail_together_fail_once(count: int) -> None:
    """However many workers one cause takes, the next ones start within a second; pauses double by tries, not by
    workers.
    """
    world = a_job(6)
    before = len(world.sentences(job_effects.StartWorker))
    for pod in world.members()[-count:]:
        world.end(pod, 1, None)

    assert world.run(1.5, lambda: len(world.sentences(job_effects.StartWorker)) == before + count)


@pytest.mark.parametrize("least", [1, 4])
def test_pods_that_are_refused_together_are_refused_once(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota that is full for four is full for one: it is tried again after pauses that double."""
    tries: list[float] = []

    def refused(world: World, effect: job_effects.StartWorker) -> None:
        tries.append(world.now)
        world.later(0.1, lambda: world.handle(job_events.StartRefused(effect.number, "exceeded quota")))

    monkeypatch.setattr(World, "_startworker", refused)
    world = World(Spec(min_workers=least, max_workers=least, template=TEMPLATE))
    world.run(200)
    pauses = [
        later - before for before, later in itertools.pairwise(sorted(set(tries))) if later - before > 0.5
    ]

    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 64], abs=0.5)


def refuse(monkeypatch: pytest.MonkeyPatch, role: str, crowd: int = 1) -> None:
    """The quota takes no pod of this role any more, nor one of so many jobs."""
    make = World._startworker

    def asked(world: World, effect: job_effects.StartWorker) -> None:
        if effect.role != role:
            make(world, effect)
        else:
            refused = job_events.StartRefused(effect.number, f"no {role} any more", crowd)
            world.later(0.1, lambda: world.handle(refused))

    monkeypatch.setattr(World, "_startworker", asked)


def spoil(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    """Whatever is started in this role fails."""
    make = World._startworker

    def asked(world: World, effect: job_effects.StartWorker) -> None:
        make(world, effect)
        list(world.pods.values())[-1].crashes = effect.role == role

    monkeypatch.setattr(World, "_startworker", asked)


def starts(world: World, role: str) -> int:
    return sum(one.role == role for one in world.sentences(job_effects.StartWorker))


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
    assert (coming.reason, coming.at > world.now) == ("next start of surplus after failures", True)
    moment = datetime.fromtimestamp(coming.at, UTC)
    wait = f"next start of surplus at {moment:%H:%M:%S} UTC, after 8 consecutive failures"
    assert world.status.reason == f"{wait}: no surplus any more"

    world.size(2)
    world.run(2)
    assert (world.status.reason, world.status.next_change) == (
        "2 workers wanted by test: the test says so",
        None,
    )

    refuse(monkeypatch, "core")
    world.size(6)
    world.end(world.members()[1], 1, None)
    world.run(4)
    assert "next start of core at " in world.status.reason
    assert ": no core any more" in world.status.reason
    assert world.status.next_change is not None
    assert world.status.next_change.reason == "next start of core after failures"


@pytest.mark.slow
@pytest.mark.parametrize("after", [60.0, 100.0])
def test_pods_that_are_refused_late_are_refused(after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the API server was tried before it was told, also beyond the time in which the pod should have been
    seen: people hear why, and the pauses before the next tries double.
    """
    tries: list[float] = []

    def refused(world: World, effect: job_effects.StartWorker) -> None:
        tries.append(world.now)
        world.later(
            after, lambda: world.handle(job_events.StartRefused(effect.number, "failed calling webhook"))
        )

    monkeypatch.setattr(World, "_startworker", refused)
    world = World(Spec(min_workers=2, max_workers=2, template=TEMPLATE))
    world.run(3000)
    told = [effect.message for effect in world.sentences(job_effects.Tell)]
    pauses = [later - before for before, later in itertools.pairwise(sorted(set(tries)))]

    assert set(told) == {"Pod creation failed: failed calling webhook"}
    assert "failed calling webhook" in world.status.reason
    assert max(pauses) > 3 * after


def test_a_pod_that_is_seen_late_was_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first answer was lost, and what a later try is told says nothing of the pod that is there."""
    asked: list[job_effects.StartWorker] = []
    monkeypatch.setattr(World, "_startworker", lambda _, effect: asked.append(effect))
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.run(world.limits.unseen + 5)
    late, again = asked
    for effect in (late, again):
        world.handle(job_events.WorkerSeen(f"u{effect.number}", f"w{effect.number}", number=effect.number))
    world.handle(job_events.StartRefused(late.number, "failed calling webhook"))

    assert world.sentences(job_effects.Tell) == []


def test_failures_that_are_far_apart_are_in_no_row() -> None:
    """A worker that fails after others did, long ago, is replaced as soon as the first of them was."""
    world = a_job(3)
    for _ in range(6):
        before = len(world.sentences(job_effects.StartWorker))
        world.end(world.members()[2], 1, None)
        assert world.run(1.5, lambda before=before: len(world.sentences(job_effects.StartWorker)) > before)
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
        before = len(world.sentences(job_effects.StartWorker))
        assert world.run(400, lambda before=before: len(world.sentences(job_effects.StartWorker)) > before)
        starts.append(world.now)

    assert starts[-1] - starts[-2] >= 250


def refused_alone(crowd: int, seconds: float, monkeypatch: pytest.MonkeyPatch) -> World:
    """A job of one core that is refused for so long, one of so many."""
    refuse(monkeypatch, "core", crowd)
    world = World(Spec(min_workers=1, max_workers=1, template=TEMPLATE))
    world.run(seconds)
    return world


def waits(world: World) -> float:
    """Seconds until its next start, from the last failure on."""
    at = world.status.next_change.at if world.status.next_change else None
    assert at is not None
    return at - world.membership._s.backoff.roles["core"].failed_at


@pytest.mark.parametrize("crowd", [1, 20, 150])
def test_few_jobs_that_are_refused_do_not_wait_for_each_other(
    crowd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for as long as it would alone: five minutes at the most."""
    world = refused_alone(crowd, 700, monkeypatch)

    assert (waits(world), starts(world, "core")) == (pytest.approx(300), 11)


def test_many_jobs_that_are_refused_share_the_tries_of_their_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status says when it is this one's turn, and before that it is not tried."""
    world = refused_alone(5000, 100, monkeypatch)
    before, turn = starts(world, "core"), waits(world)

    assert 5_000 <= turn <= 15_000
    world.run(turn - 200)
    assert starts(world, "core") == before
    assert world.run(200, lambda: starts(world, "core") == before + 1)


def turn(name: str, crowd: int) -> float:
    """Seconds that a job of this name waits for its turn, once it has failed for a while."""
    membership, now = Reconciler(name), 1000.0
    spec = Spec(min_workers=1, max_workers=1, template=TEMPLATE)
    begun = (job_events.Restored(None), job_events.SpecSeen(spec), job_events.Listed())
    todo = [effect for event in begun for effect in membership.handle(event, now)]
    while True:
        number = next(one.number for one in todo if isinstance(one, job_effects.StartWorker))
        todo = membership.handle(job_events.StartRefused(number, "full", crowd), now)
        coming = membership.status(now).next_change
        if coming is None or coming.at is None:
            continue  # it is tried again at once
        if coming.at - now > Timeouts().backoff_most:
            return coming.at - now
        now = coming.at
        todo = membership.handle(job_events.Elapsed(), now)


def test_they_come_to_a_try_every_two_seconds() -> None:
    """However many they are; and those that were refused together are tried one after the other."""
    turns = sorted(turn(f"team/job-{place}", 1000) for place in range(1000))

    assert sum(1 / one for one in turns) == pytest.approx(0.5, rel=0.15)
    assert max(later - before for before, later in itertools.pairwise(turns)) < 30


def test_a_job_that_is_refused_for_a_moment_does_not_wait_for_a_crowd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod that goes may still hold the quota: those tries are as soon as everywhere."""
    world = refused_alone(5000, 14, monkeypatch)

    assert waits(world) == pytest.approx(8)
    assert starts(world, "core") == 5


def test_a_job_that_waits_for_its_next_start_alone_is_looked_at_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """All else is told: there are no looks meanwhile but one a minute, and none is late."""
    world = refused_alone(1, 140, monkeypatch)
    until, before = world.membership._s.backoff.roles["core"].until, starts(world, "core")

    world.handle(job_events.Elapsed())
    assert world.membership.next_deadline(world.now) == world.now + 60 < until
    world.run(until - world.now - 10)
    world.handle(job_events.Elapsed())
    assert world.membership.next_deadline(world.now) == until
    world.run(9.8)
    assert starts(world, "core") == before
    world.run(0.3)
    assert starts(world, "core") == before + 1


def test_a_pod_that_appears_while_its_job_waits_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose refusal was no answer of the API server's own: it is placed, trains, and the job waits no more."""
    world = refused_alone(1, 140, monkeypatch)
    monkeypatch.undo()
    number = world.sentences(job_effects.StartWorker)[-1].number
    world._startworker(job_effects.StartWorker(number, "core"))

    assert world.run(15, lambda: world.trains(1)), world.status.reason


def test_a_job_whose_template_was_mended_starts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures of pods that were made of another say nothing of its own."""
    world = refused_alone(5000, 140, monkeypatch)
    before = starts(world, "core")
    world.change(max_workers=2)
    world.run(5)
    assert starts(world, "core") == before
    world.change(template={"spec": {"containers": [{"name": "worker", "image": "mended"}]}})

    assert starts(world, "core") == before + 1


def test_the_same_refusal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event says it when it is new, or when a pod was made since; else the status says it, all the time."""
    world = refused_alone(1, 100, monkeypatch)
    assert [one.reason for one in world.sentences(job_effects.Tell)] == ["FailedCreate"]
    assert "no core any more" in world.status.reason

    monkeypatch.setattr(World, "_startworker", lambda *_: None)
    assert world.run(40, lambda: bool(world.membership._s.sizing.starts))
    number = world.sentences(job_effects.StartWorker)[-1].number
    world.handle(job_events.StartRefused(number, "another quota"))
    assert [one.message for one in world.sentences(job_effects.Tell)][1:] == [
        "Pod creation failed: another quota"
    ]

    world.handle(job_events.WorkerSeen("u", "w"))
    world.handle(job_events.WorkerGone("u"))
    assert world.run(300, lambda: bool(world.membership._s.sizing.starts))
    number = world.sentences(job_effects.StartWorker)[-1].number
    world.handle(job_events.StartRefused(number, "another quota"))
    assert len(world.sentences(job_effects.Tell)) == 3
