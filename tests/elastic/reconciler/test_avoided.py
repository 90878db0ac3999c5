"""Nodes that are avoided after failures, and for how long."""

import msgspec
import pytest

from scheduler.elastic.job import Spec, encode_status
from scheduler.elastic.job.status import Barred, Resize
from scheduler.elastic.reconciler import job_effects, job_events
from tests.elastic.reconciler.support.training import a_job
from tests.elastic.reconciler.support.world import TEMPLATE, World


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


@pytest.mark.slow
def test_a_master_whose_clock_was_ahead_bars_no_node_for_longer_than_any() -> None:
    """What it wrote is in the future by a day: a node is avoided for an hour at the most, no change is to come."""
    world = a_job(2)
    ahead = world.now + 86400.0
    resized = Resize(before=1, to=2, cause="ScaleUp", at=ahead)
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
    assert world.sentences(job_effects.StartWorker)[-1].avoid == ()


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
            job_events.Exited(pod.uid, 1, None, "", tail=("Fehler: " + "ö" * 4000,) * 3, round=pod.round)
        )
    status = world.status

    assert (len(status.barred), [bool(one.reason) for one in status.members]) == (6, [True] * 6)
    assert len(msgspec.json.encode(encode_status(status))) < 4 * healthy
