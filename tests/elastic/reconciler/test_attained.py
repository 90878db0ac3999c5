"""The service that a job has attained, in worker-seconds, as the division of capacity sees it."""

import pytest

from tests.elastic.reconciler.support.training import a_job


def test_sizes_times_durations() -> None:
    """Attained service grows by the present size each second, and keeps what earlier rounds had."""
    world = a_job(2)
    world.run(10)
    first = world.membership.wishes(world.now)
    world.run(10)
    second = world.membership.wishes(world.now)
    assert first is not None
    assert second is not None
    assert second.attained - first.attained == pytest.approx(20, rel=0.05)

    world.size(4)
    assert world.run(20, lambda: world.trains(4))
    third = world.membership.wishes(world.now)
    world.run(10)
    fourth = world.membership.wishes(world.now)
    assert third is not None
    assert fourth is not None
    assert third.attained > second.attained
    assert fourth.attained - third.attained == pytest.approx(40, rel=0.05)
