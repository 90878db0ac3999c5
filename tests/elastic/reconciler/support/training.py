"""A job that trains already, and how long it takes to train again."""

from scheduler.elastic.job import Spec
from tests.elastic.reconciler.support.world import TEMPLATE, World


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
