"""What would be lost of a pod, and what a namespace uses while one pod takes the place of another."""

from dataclasses import replace

from scheduler.ledger import attained_service
from scheduler.ledger.namespace_usage import ShareUsage
from scheduler.model.workload import Uid
from tests.engine.support.cast import a_pod
from tests.support.builders import GPU, a_demand


def test_what_was_saved_is_not_lost() -> None:
    """Device-seconds count from the last checkpoint on, where one was reported since the pod began."""
    pod = replace(a_pod(gpu=2, node="n1"), bound_at=10.0)
    assert attained_service.unsaved(pod, 100.0) == 180.0
    assert attained_service.unsaved(replace(pod, saved_at=70.0), 100.0) == 60.0
    assert attained_service.unsaved(replace(pod, saved_at=5.0), 100.0) == 180.0


def test_a_pod_and_the_seat_kept_for_its_successor_count_once() -> None:
    """Whichever of the two is there: the pod may use its room again after the seat was counted in its place."""
    usage, old, name = ShareUsage({}), Uid("old"), Uid("lease:old")
    demand = a_demand(gpu=1)
    usage.keep(name, old, "default", demand)
    assert usage.of("default").used[GPU] == 1.0
    usage.put(old, "default", demand)
    assert usage.of("default").used[GPU] == 1.0
    usage.take(old)
    assert usage.of("default").used[GPU] == 1.0
    usage.keep_no_longer(old)
    assert usage.of("default").used == {}
