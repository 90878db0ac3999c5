"""Seats on what is free."""

from hypothesis import given
from hypothesis import strategies as some

from scheduler.elastic.sizing import UNLIMITED, free_on
from scheduler.elastic.sizing.capacity import Capacity

KINDS = ({"gpu": 1.0}, {"gpu": 2.0, "cpu": 1.0}, {"cpu": 3.0}, {"rdma": 1.0})
NODES = some.lists(some.fixed_dictionaries({"gpu": some.integers(0, 6), "cpu": some.integers(0, 6)}))


class OneByOne:
    """The same, a worker at a time and a node at a time."""

    def __init__(self, nodes):
        self.nodes = [dict(node) for node in nodes]

    def take(self, worker, count):
        before = [dict(node) for node in self.nodes]
        for _ in range(count):
            holds = (node for node in self.nodes if all(node.get(name, 0) >= worker[name] for name in worker))
            if (first := next(holds, None)) is None:
                self.nodes = before
                return False
            for name, amount in worker.items():
                first[name] -= amount
        return True


@given(NODES, some.lists(some.tuples(some.sampled_from(KINDS), some.integers(1, 5)), max_size=20))
def test_seats_are_those_of_a_scan(nodes, asked):
    """Every answer is the one that a scan of all nodes gives for each worker, whatever was taken before."""
    scan, capacity = OneByOne(nodes), Capacity(free_on(nodes))

    for worker, count in asked:
        assert capacity.seats(worker, 0).take(count) == scan.take(worker, count)


def test_what_is_not_known_bounds_nobody():
    """Where nothing is known of nodes, every worker has a seat."""
    capacity = Capacity(UNLIMITED)

    assert all(capacity.seats({"gpu": 8.0, "memory": 2.0**40}, 0).take(1000) for _ in range(10))
