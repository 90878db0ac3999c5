"""Candidates for preemption, and the limits on choosing them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Matrix
from scheduler.model.workload import GangKey, GiveWay, Pod, Uid


class Kind(IntEnum):
    """What is preempted together, in the order of preference at equal cost."""

    SURPLUS = 0
    """One member above its gang's quorum. The gang keeps running without it."""
    POD = 1
    """A pod without a gang."""
    GANG = 2
    """The quorum of a gang together with all of its surplus."""


class By(IntEnum):
    """Why a pod may be preempted. The greater value is the weaker claim."""

    ORDER = 0
    """It ranks behind: its priority is lower, or its turn is over."""
    CLAIM = 1
    """Only for what it uses of a guarantee that its namespace has borrowed."""


NODES_OWN: Final = frozenset({"DaemonSet", "Node"})
"""Kinds of owners with pods that belong to their node. After an eviction these return to it, or they only mirror what
runs there."""

SYSTEM: Final = 2_000_000_000
"""Priority of system pods (`system-cluster-critical`), which are never victims."""


def may_be_asked(pod: Pod) -> bool:
    """Whether the pod may be preempted. Pods of a node, system pods and terminating pods may not."""
    kept = pod.key.off_limits or (pod.owner is not None and pod.owner.kind in NODES_OWN)
    return not (pod.deleting or kept or pod.priority >= SYSTEM)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods that are preempted together or not at all.

    rows: int64[k], the node of each pod as a row of the snapshot.  uses: float64[k, r], the resources that each frees.
    priority: the highest of the pods.  lost: device-seconds of work that the preemption discards.
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
    """Victims of one namespace may use at most `most` together.

    uses: each pod's use of the limited resource. For a disruption budget each pod uses 1.
    """

    most: float
    uses: Mapping[Uid, float]


@dataclass(frozen=True, slots=True)
class Terms:
    """Rules for the set of victims, in addition to the rules for each of them.

    claimed: the resources that the gang requests and that its namespace is guaranteed. A victim by `By.CLAIM` may only
    be taken for these: they must be short, and the gang must lack one of them on its node without that victim.
    """

    limits: tuple[Limit, ...] = ()
    claimed: frozenset[str] = field(default_factory=frozenset)


FREELY: Final = Terms()
"""No limits: any candidates, as many as necessary."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """Seats for the whole quorum once these victims left. The set is minimal: without any of them the gang does not
    fit.
    """

    seats: Mapping[Uid, str]
    victims: tuple[Unit, ...]

    @property
    def uids(self) -> tuple[Uid, ...]:
        """All victims."""
        return tuple(uid for unit in self.victims for uid in unit.uids)
