"""Parts of a gang's record, each written by the one module that its docstring names. Data only."""

from dataclasses import dataclass, field

from scheduler.ledger.messages import GaveWay
from scheduler.ledger.runtimes import Reach, Run
from scheduler.model.decision import Reason
from scheduler.model.workload import Uid

UNASKED = Reach()
"""The value until the runtime of a gang is requested after its last reconciliation."""


@dataclass(slots=True)
class Health:
    """Its health since its quorum was complete. Written by `healing`."""

    setbacks: int = 0
    """How often it did not start in time or was restarted since it last ran well. Each doubles the time to the next."""
    well_since: float | None = None
    """Since when its quorum runs and no member is starting."""
    bereft: bool = False
    """It lost members since its quorum was last complete."""
    restart_for: str = ""
    """The loss that requires a restart of the whole gang. Empty: none."""
    look_at: float = float("inf")
    """When time alone may require healing."""


@dataclass(slots=True)
class Pinning:
    """Nodes where its pins broke. Written by `pins`."""

    soft: bool = False
    """Pins broke too often: from now on members are nominated."""
    broken: int = 0
    barred: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Node → (until when, for how long): excluded as a pin broke there. Kept for twice the span, for the doubling."""
    barred_nodes: frozenset[str] = frozenset()
    """The nodes that are excluded now."""


@dataclass(slots=True)
class ObservedRun:
    """Its run, for the memory of runtimes. Written by `observed_runs`."""

    since: float | None = None
    """When its quorum was complete, by the API server's clock if known."""
    promised: float | None = None
    """The runtime in seconds that it declared when its quorum was complete, which decided its turn. Kept because ended
    pods no longer declare anything."""
    interrupted: bool = False
    """Its quorum was complete before, and then was not: this run says nothing about the declared total."""
    doubted: bool = False
    """It has run far longer than declared. Declarations of its owner's gangs are no longer trusted."""
    run: Run | None = None
    """The query to `runtimes`, derived for `run_for`."""
    run_for: int = -1
    reach: Reach = UNASKED
    """Maximum seconds of its run, as far as known."""


@dataclass(slots=True)
class Account:
    """Its account for the history of ended gangs. Written by `gang_history`."""

    arrived: float
    """Creation of its first pod, in seconds since the epoch."""
    began: float | None = None
    """When its quorum was first bound."""
    quorum: int = 0
    """Members of its quorum at that time."""
    used: tuple[tuple[str, float], ...] = ()
    """Seconds times amount, by device, for its pods that freed their nodes."""


@dataclass(slots=True)
class Backoff:
    """Its failed attempts, and the delay of the next one. Written by `backoff`."""

    tries: int = 0
    not_before: float = float("-inf")


@dataclass(slots=True)
class BindLimit:
    """The clock of one attempt. Written by `deadlines`."""

    by: float | None = None
    """When the quorum must be bound. Set with the first ungating PATCH."""
    roomless_since: float | None = None
    """Since when it is partially bound without capacity for the rest in its required domain."""


@dataclass(slots=True)
class Preemption:
    """Preemptions by and of this gang. Written by `preemption`."""

    at: float = float("-inf")
    """When pods were last preempted for it."""
    gave_way: GaveWay | None = None
    """Only in memory. The conditions of its pods outlive a restart."""
    spared: dict[Uid, float] = field(default_factory=dict)
    """Victims that did not leave, and until when they are not requested again."""


@dataclass(slots=True)
class RuntimeLimit:
    """The end that its max-runtime sets. Written by `runtime_limit`."""

    told: tuple[Reason, float] | None = None
    """The last report, and for which end."""
    suspend_again: float = float("-inf")
    """When its Job is suspended, or the suspension is retried."""
    look_at: float = float("inf")
    """When time alone requires a warning or the end."""
    exceeded: float | None = None
    """The max-runtime in seconds that ended it, while pods of it may be created again."""
    makers: frozenset[str] = frozenset()
    """Uids of the controllers of its evicted pods, and of the controllers of their Jobs. Their next pods are not
    placed."""
