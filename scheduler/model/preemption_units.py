"""Who may have to leave so that a gang finds room."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix
from scheduler.model.workload import GangKey, GiveWay, Pod, Uid


class Kind(IntEnum):
    """What leaves, in the order in which it is asked to, where the cost is equal."""

    SURPLUS = 0
    """One member above its gang's quorum: the gang goes on without it."""
    POD = 1
    """A pod that is no gang's."""
    GANG = 2
    """The quorum of a gang, and with it all of the gang's surplus."""


class By(IntEnum):
    """By what right a pod may be asked to leave; the greater says less."""

    ORDER = 0
    """It goes behind: of lower priority, or its turn is over."""
    CLAIM = 1
    """Only for what it uses of a guarantee that its namespace has borrowed."""


NODES_OWN: Final = frozenset({"DaemonSet", "Node"})
"""Kinds of owners whose pods belong to their node: evicted they come back to it, or are only copies of what runs
there.
"""

SYSTEM: Final = 2_000_000_000
"""Priority of the cluster's own pods (`system-cluster-critical`): they are never victims."""


def may_be_asked(pod: Pod) -> bool:
    """Its owner makes it again, or it may end: it is not of its node, not the cluster's own, and not on its way out."""
    kept = pod.key.off_limits or (pod.owner is not None and pod.owner.kind in NODES_OWN)
    return not (pod.deleting or kept or pod.priority >= SYSTEM)


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
    by: By = By.ORDER


@dataclass(frozen=True, slots=True)
class Limit:
    """Of the pods of one namespace only so many may leave that what they use is no more than `most`.

    uses: what each pod uses of the one resource of which this is the limit; of a disruption budget each uses 1.
    """

    most: float
    uses: Mapping[Uid, float]


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds of all together who leave, beside that each of them may be asked to.

    claimed: the resources that are guaranteed to the gang's namespace and asked for by the gang.  Who may leave only by
    `By.CLAIM` does so for these alone: they are short, and without him the gang would lack one of them where it sits.
    """

    limits: tuple[Limit, ...] = ()
    claimed: frozenset[str] = field(default_factory=frozenset)


FREELY: Final = Terms()
"""Any of those in question, and as many as it takes."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """All of the quorum have a seat once these have left; leaving out any of them, the gang would not fit."""

    seats: Mapping[Uid, str]
    victims: tuple[Unit, ...]

    @property
    def uids(self) -> tuple[Uid, ...]:
        """All pods that leave."""
        return tuple(uid for unit in self.victims for uid in unit.uids)
