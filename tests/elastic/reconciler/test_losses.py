"""Losses: what can happen to a worker that trains, and how long the others stand still for it."""

import pytest

from scheduler.elastic.job import Phase, Spec
from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import Timeouts, job_effects, job_events, selectors
from tests.elastic.reconciler.support import world as membership_world
from tests.elastic.reconciler.support.training import a_job, recovers
from tests.elastic.reconciler.support.world import COLLECTIVE_S, TEMPLATE, World


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
    assert any(one.uid == frozen.uid for one in world.sentences(job_effects.Abort))


def test_a_lost_node_is_noticed_by_silence() -> None:
    """A host that is gone without a word: five seconds without a beat; the others come when their collective fails."""
    world = a_job(3)
    gone = world.members()[0]
    world.lose_node(gone)

    assert recovers(world, 3, within=COLLECTIVE_S + 4) <= COLLECTIVE_S + 4
    assert gone not in world.members()
    told = [one.message for one in world.sentences(job_effects.Tell) if one.reason == "WorkerLost"]
    assert told == [f"{gone.name} sent no heartbeat for 5 s"]


def test_a_hung_main_thread_is_named() -> None:
    """Everybody waits in a collective but one: that one is the culprit, after a minute, and it alone is killed."""
    world = a_job(3)
    culprit = world.members()[1]
    world.hang(culprit)

    assert recovers(world, 2, within=75) > 60
    assert [one.uid for one in world.sentences(job_effects.Abort)] == [culprit.uid]


@pytest.mark.parametrize("size", [2, 6])
def test_how_long_a_hang_is_is_worked_out_once_a_look(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by the steps of all members: worked out for each of them, a ring of some hundred would take the master's
    time.
    """
    world = a_job(size)
    known, asked = selectors.step_s, list[float]()
    monkeypatch.setattr(selectors, "step_s", lambda s: asked.append(world.now) or known(s))
    world.handle(job_events.Elapsed())

    assert len(asked) <= 2


def test_a_validation_of_some_minutes_is_no_hang() -> None:
    """One rank is busy outside of any collective, the others wait for it in one; by default it has ten minutes."""
    world = a_job(3)
    world.limits = Timeouts()
    world.begin()
    world.run(5)
    busy = world.members()[0]
    world.hang(busy)
    world.run(540)
    busy.hung = False
    world.run(5)

    assert world.trains(3)
    assert not world.sentences(job_effects.Abort)


def test_slow_steps_are_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten steps are waited for, also while beats tell of none: most do not where a step is longer than a second."""
    monkeypatch.setattr(membership_world, "STEP_S", 10.0)
    world = World(Spec(min_workers=3, max_workers=6, template=TEMPLATE))
    assert world.run(60, lambda: world.steps() > 3)
    world.run(2)
    world.hang(world.members()[1])
    world.run(90)
    assert not world.sentences(job_effects.Abort)

    assert world.run(20, lambda: bool(world.sentences(job_effects.Abort)))


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
    assert next(iter(world.sentences(job_effects.Publish)[-1].assignments.values())).restore == "/ckpt"
