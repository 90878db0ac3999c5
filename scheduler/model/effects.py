"""Actions to perform in the cluster. Each effect is idempotent and a compare-and-swap on the pod's uid. Effects on a
Job also check its version, because an operator may suspend or resume it at the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from scheduler.model.decision import Reason
from scheduler.model.demand import AnyOf
from scheduler.model.workload import GangKey, Owner, PodKey, Uid


@dataclass(frozen=True, slots=True)
class _Effect:
    """The gang that the effect belongs to, and its object."""

    gang: GangKey
    uid: Uid
    """Of the pod. For a Job, of one of its pods, for example the victim for which the Job is suspended."""
    key: PodKey
    """Namespace and name of the pod or the Job."""


@dataclass(frozen=True, slots=True)
class WritePlan(_Effect):
    """Write the plan on the gang's first member before anything else happens. Empty seats remove the plan.

    `victims` are evicted only after this succeeded.
    """

    plan: str
    seats: Mapping[Uid, str] = field(hash=False)
    victims: tuple[Uid, ...] = ()


@dataclass(frozen=True, slots=True)
class Ungate(_Effect):
    """One PATCH: remove Gangwright's gate, add the seat annotation, and with `pin` the seat's node affinity.

    `affinity` is the pod's own required node affinity. The pin narrows each of its terms.
    """

    plan: str
    node: str
    pin: bool
    affinity: AnyOf = ()


@dataclass(frozen=True, slots=True)
class Nominate(_Effect):
    """Set `status.nominatedNodeName`. An empty node clears it."""

    plan: str
    node: str


@dataclass(frozen=True, slots=True)
class Evict(_Effect):
    """Evict through the Eviction API, which honors disruption budgets."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Announce(_Effect):
    """Report an event on one member and its owner, and set the condition `gangwright.io/Seated` on the member.

    `seated` is the condition's status. None leaves the condition unchanged.
    """

    owner: Owner | None
    reason: Reason
    message: str
    seated: bool | None = None
    turned: bool = True
    """The condition had another status before."""
    disrupted: bool = False
    """The pod is evicted for this reason, so the condition `DisruptionTarget` is set on it, too."""
    since: float | None = None
    """When this was first reported, in the ledger's time. All repeats become one Event. None: it is reported once."""
    count: int = 1
    """How often it was reported since then, including now."""


@dataclass(frozen=True, slots=True)
class SetCondition(_Effect):
    """Set the condition `gangwright.io/Seated` on one member to its gang's status, without an event."""

    reason: Reason
    message: str
    seated: bool
    turned: bool
    """The condition had another status before."""


@dataclass(frozen=True, slots=True)
class SuspendJob(_Effect):
    """Suspend the Job whose pods are preempted for `gang`. Note on the Job that Gangwright suspended it, and its
    attained service. With `stays` it is the Job of `gang` itself, whose run ends.
    """

    owner: Owner
    attained: float
    """Device-seconds."""
    version: str = ""
    """Of the Job when last seen, at which time it was not suspended."""
    stays: Reason | None = None
    """Why Gangwright does not resume it. None: it is resumed as soon as its pods are deleted."""


@dataclass(frozen=True, slots=True)
class ResumeJob(_Effect):
    """Resume a Job that Gangwright suspended and remove the note. Its new pods queue like all others."""

    owner: Owner
    version: str = ""
    """Of the Job when last seen, at which time it carried Gangwright's note."""


Effect: TypeAlias = WritePlan | Ungate | Nominate | Evict | SuspendJob | ResumeJob | Announce | SetCondition
