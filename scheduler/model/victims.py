"""Who may have to leave so that a gang finds room."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix
from scheduler.model.workload import GangKey, GiveWay, Uid


class Kind(IntEnum):
    """What leaves, in the order in which it is asked to, where the cost is equal."""

    SURPLUS = 0
    """One member above its gang's quorum: the gang goes on without it."""
    POD = 1
    """A pod that is no gang's."""
    GANG = 2
    """The quorum of a gang, and with it all of the gang's surplus."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods that leave together or stay together.

    rows: int64[k], the node of each pod as a row of the snapshot.  uses: float64[k, r], the room that each gives back.
    priority: the highest of the pods'.  lost: device-seconds of work that their leaving throws away.
    """

    gang: GangKey
    kind: Kind
    uids: tuple[Uid, ...]
    rows: NDArray[np.int64]
    uses: Matrix
    priority: int
    lost: float
    way: GiveWay = GiveWay.EVICT


@dataclass(frozen=True, slots=True)
class Preempt:
    """Everybody of the quorum has a seat once these have left; leaving out any of them, the gang would not fit."""

    seats: Mapping[Uid, str]
    victims: tuple[Unit, ...]

    @property
    def uids(self) -> tuple[Uid, ...]:
        """All pods that leave."""
        return tuple(uid for unit in self.victims for uid in unit.uids)
