"""What namespaces use in one scenario, held against the most that each may use.

Lives here: the sums, and whether a quorum goes above them. Never here: who comes and goes (simulation).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.model.cluster import Matrix
from scheduler.model.queueing import Usage
from scheduler.model.resources import ResourceAxis, Vector


class Ceilings:
    """Only namespaces that have a ceiling; the name "" stands for all others.

    A ceiling on a resource that no node has does not count: a gang that asks for that fits nowhere anyway.
    """

    def __init__(self, axis: ResourceAxis, usages: Mapping[str, Usage]) -> None:
        limited = {name: own for name, own in usages.items() if own.share.ceiling}
        self._most: Final = {
            name: _row(axis, dict(own.share.ceiling), np.inf) for name, own in limited.items()
        }
        self._used: Final = {name: _row(axis, own.used, 0.0) for name, own in limited.items()}

    def copy(self) -> "Ceilings":
        """The same sums, for another scenario."""
        other = Ceilings(ResourceAxis(), {})
        other._most.update(self._most)
        other._used.update(self._used)
        return other

    def of(self, namespace: str) -> str:
        """The namespace, where it has a ceiling; else ""."""
        return namespace if namespace in self._most else ""

    def put(self, namespace: str, uses: Matrix) -> None:
        """This namespace uses so much more; float64[k, r]."""
        if namespace in self._used:
            self._used[namespace] = self._used[namespace] + uses.sum(axis=0)

    def take(self, namespace: str, uses: Matrix) -> None:
        """This namespace uses so much less; float64[k, r]."""
        self.put(namespace, -uses)

    def is_passed(self, namespace: str, needs: Vector) -> bool:
        """A quorum that needs so much, float64[r], would take the namespace above its ceiling."""
        if namespace not in self._most:
            return False
        above = self._used[namespace] + needs > self._most[namespace]
        return bool((above & (needs > 0)).any())


def _row(axis: ResourceAxis, amounts: Mapping[str, float], otherwise: float) -> Vector:
    return np.array([amounts.get(name, otherwise) for name in axis.names], dtype=np.float64)
