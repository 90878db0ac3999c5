"""The room that is shared out in one call, on a scratch copy.

Lives here: taking a worker's place from the first node that holds it. Never here: who gets it. Why nodes and not sums:
what is left over on many nodes is no room for anybody. Where the scheduler will seat the worker is its own decision.
"""

from collections.abc import Mapping

from scheduler.elastic.sizing.job_view import Free

Worker = Mapping[str, float]


class Room:
    """What is free, less what was taken in this call."""

    def __init__(self, free: Free) -> None:
        self._nodes = [dict(node) for node in free.nodes]
        self.unlimited = free.unlimited
        """It is not known what is free."""

    def take(self, worker: Worker, count: int = 1) -> bool:
        """Takes the place of so many workers, or nothing."""
        taken: list[dict[str, float]] = []
        for _ in range(0 if self.unlimited else count):
            node = next((node for node in self._nodes if _holds(node, worker)), None)
            if node is None:
                self._back(taken, worker)
                return False
            _move(node, worker, -1.0)
            taken.append(node)
        return True

    def _back(self, taken: list[dict[str, float]], worker: Worker) -> None:
        for node in taken:
            _move(node, worker, 1.0)


def _holds(node: Mapping[str, float], worker: Worker) -> bool:
    return all(node.get(resource, 0.0) >= amount for resource, amount in worker.items())


def _move(node: dict[str, float], worker: Worker, sign: float) -> None:
    for resource, amount in worker.items():
        node[resource] = node.get(resource, 0.0) + sign * amount
