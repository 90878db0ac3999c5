"""What the nodes alone decide, remembered: where a demand may go, and which gangs no empty cluster could seat.

Lives here: the memory. Never here: how either is worked out (feasibility, planner).
"""

from collections.abc import Callable, Hashable

from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Wait
from scheduler.model.demand import Demand
from scheduler.placement.feasibility import Where, where


class FeasibilityCache:
    """Remembers what the nodes alone decide, for one nodes_version. It changes no answer, it only saves the work.

    One instance serves the snapshots of one ledger: versions of different ledgers mean different clusters.
    """

    def __init__(self, limit: int = 256) -> None:
        """`limit`: entries kept of each kind; 256 distinct demands are more than most clusters see between two node
        changes.
        """
        self._limit = limit
        self._version: int | None = None
        self._kept: dict[tuple[object, ...], Where] = {}
        self._vain: dict[Hashable, Wait | None] = {}

    def of(self, snapshot: Snapshot, demand: Demand) -> Where:
        """As `where`, remembered."""
        self._renew(snapshot)
        found = self._kept.get(demand.where)
        if found is None:
            found = self._kept[demand.where] = where(snapshot, demand)
        return found

    def in_vain(self, snapshot: Snapshot, shape: Hashable, ask: Callable[[], Wait | None]) -> Wait | None:
        """What `ask()` says of gangs of this shape, remembered: why none could be seated were the cluster empty;
        None: one could.
        """
        self._renew(snapshot)
        if shape not in self._vain:
            self._vain[shape] = ask()
        return self._vain[shape]

    def _renew(self, snapshot: Snapshot) -> None:
        full = max(len(self._kept), len(self._vain)) >= self._limit
        if full or snapshot.nodes_version != self._version:
            self._version, self._kept, self._vain = snapshot.nodes_version, {}, {}
