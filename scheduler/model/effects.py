"""What is to be done in the cluster. Each effect is idempotent and a compare-and-swap on the pod's uid; what is done to
a Job also on its version, for a person may suspend or resume it at the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from scheduler.model.decision import Reason
from scheduler.model.demand import AnyOf
from scheduler.model.workload import GangKey, Owner, PodKey, Uid


@dataclass(frozen=True, slots=True)
class _Effect:
    """For which gang, and on which object."""

    gang: GangKey
    uid: Uid
    """Of the pod; of one of a Job's pods, such as the victim for which the Job is suspended."""
    key: PodKey
    """Namespace and name of the pod, or of the Job."""


@dataclass(frozen=True, slots=True)
class WritePlan(_Effect):
    """Write the plan on the gang's first member, before anything else happens. No seats: take the plan away.

    `victims` are asked to leave only when this has come true.
    """

    plan: str
    seats: Mapping[Uid, str] = field(hash=False)
    victims: tuple[Uid, ...] = ()


@dataclass(frozen=True, slots=True)
class Ungate(_Effect):
    """One PATCH: our gate goes, the seat annotation comes, and with `pin` the node affinity of the seat.

    `affinity` is the pod's own required node affinity; the pin narrows each of its terms.
    """

    plan: str
    node: str
    pin: bool
    affinity: AnyOf = ()


@dataclass(frozen=True, slots=True)
class Nominate(_Effect):
    """Set `status.nominatedNodeName`; an empty node clears it."""

    plan: str
    node: str


@dataclass(frozen=True, slots=True)
class Evict(_Effect):
    """Evict through the Eviction API, which honours disruption budgets."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Announce(_Effect):
    """Tell people: an event on one member and on its owner, and the condition `gangwright.io/Seated` on the member.

    `seated` is the condition's status; None leaves the condition as it is.
    """

    owner: Owner | None
    reason: Reason
    message: str
    seated: bool | None = None
    turned: bool = True
    """The condition had another status before."""
    disrupted: bool = False
    """The pod is evicted for this: the condition `DisruptionTarget` on it says so, too."""
    since: float | None = None
    """When this was first said, in the ledger's time: with it, all that is said again is one Event. None: it is said
    once."""
    count: int = 1
    """How often it was said since then, this time included."""


@dataclass(frozen=True, slots=True)
class SetCondition(_Effect):
    """Set the condition `gangwright.io/Seated` on one member, without an event: how its gang stands."""

    reason: Reason
    message: str
    seated: bool
    turned: bool
    """The condition had another status before."""


@dataclass(frozen=True, slots=True)
class SuspendJob(_Effect):
    """Suspend the Job whose pods give way to `gang`, and write on it that it was us, and what it has had so far. With
    `stays` the Job is that of `gang` itself, which is ended.
    """

    owner: Owner
    attained: float
    """Device-seconds."""
    version: str = ""
    """Of the Job when it was last seen, which was not suspended then."""
    stays: Reason | None = None
    """Why it is not resumed by us; None: it is, as soon as its pods are gone."""


@dataclass(frozen=True, slots=True)
class ResumeJob(_Effect):
    """Resume a Job that we suspended, and take our word off it: its new pods wait in the queue like all others."""

    owner: Owner
    version: str = ""
    """Of the Job when it was last seen, and said that it was we who suspended it."""


Effect: TypeAlias = WritePlan | Ungate | Nominate | Evict | SuspendJob | ResumeJob | Announce | SetCondition
