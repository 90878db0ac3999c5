"""Who has to go, by a deletion or with its node: in order, and replaced first where there is room."""

from scheduler.elastic.job.spec import Checkpoint
from scheduler.elastic.reconciler import job_effects
from tests.elastic.reconciler.support.training import a_job


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

    assert len(world.sentences(job_effects.StartWorker)) == 3
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

    assert len(world.sentences(job_effects.StartWorker)) == 4
    assert (world.status.wanted, world.status.wanted_by) == (2, "test")


def test_a_core_worker_that_is_taken_away_is_made_again_at_once() -> None:
    """Without its quorum a job does not train, so nobody is asked."""
    world = a_job(3)
    world.size_due = world.now + 60
    world.delete(world.members()[1])

    assert world.run(2, lambda: len(world.sentences(job_effects.StartWorker)) == 4)
    assert world.run(20, lambda: world.trains(3))


def test_the_only_one_that_has_the_state_saves_before_it_leaves() -> None:
    """The last holder is told to save to disk; the gang goes on from there, uncounted."""

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
    assert world.status.last_resize.cause == "NodeDrain"


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
