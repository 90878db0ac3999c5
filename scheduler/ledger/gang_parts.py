"""Parts of what is remembered of a gang, each written by the one module that its docstring names. Data alone."""

from dataclasses import dataclass, field

from scheduler.ledger.messages import GaveWay
from scheduler.ledger.runtimes import Reach, Run
from scheduler.model.decision import Reason
from scheduler.model.workload import Uid

UNASKED = Reach()
"""Of a gang whose runtime was not asked for since it was looked at."""


@dataclass(slots=True)
class Health:
    """How it fares since its quorum was whole. Written by `healing`."""

    setbacks: int = 0
    """How often it did not start in time or was restarted, since it last ran well: each doubles the time to the
    next.
    """
    well_since: float | None = None
    """Since when its quorum runs and no member is still to start."""
    bereft: bool = False
    """It lost members since its quorum was last whole."""
    restart_for: str = ""
    """The loss for which it is to be restarted whole; empty: it is not."""
    look_at: float = float("inf")
    """When time alone may call for healing."""


@dataclass(slots=True)
class Pinning:
    """Where its pins broke. Written by `pins`."""

    soft: bool = False
    """Pins broke too often: from now on members are nominated."""
    broken: int = 0
    barred: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Node → (until when, for how long): this gang's pins broke there. Kept for as long again, for the doubling."""
    barred_nodes: frozenset[str] = frozenset()
    """The nodes whose bar has not ended."""


@dataclass(slots=True)
class ObservedRun:
    """Its run, for the memory of runtimes. Written by `observed_runs`."""

    since: float | None = None
    """When its quorum was whole, by the API server's clock where it tells."""
    promised: float | None = None
    """The runtime in seconds that it declared when its quorum was whole: what it had its place in the queue by. Kept,
    because pods that ended declare nothing any more."""
    interrupted: bool = False
    """Its quorum was whole before, and then was not: what it runs now says nothing of what it declared for the
    whole.
    """
    doubted: bool = False
    """It still runs, far longer than it declared, and its owner's other gangs are not believed for it."""
    run: Run | None = None
    """What `runtimes` is asked about it, worked out for `run_for`."""
    run_for: int = -1
    reach: Reach = UNASKED
    """How many seconds it runs at the longest, as far as is known."""


@dataclass(slots=True)
class Account:
    """What it had so far, for the history of gangs that ended. Written by `gang_history`."""

    arrived: float
    """When the first of its pods was made, in seconds since the epoch."""
    began: float | None = None
    """When its quorum was first bound."""
    quorum: int = 0
    """Members of its quorum then."""
    used: tuple[tuple[str, float], ...] = ()
    """Seconds times amount, by device, of its pods that gave their nodes back."""


@dataclass(slots=True)
class Backoff:
    """How often it was tried in vain, and until when it is not planned. Written by `backoff`."""

    tries: int = 0
    not_before: float = float("-inf")


@dataclass(slots=True)
class BindLimit:
    """The clock of one try. Written by `deadlines`."""

    by: float | None = None
    """When the quorum must be bound; set with the first ungating PATCH."""
    roomless_since: float | None = None
    """Since when it is torn and its required domain has no room for the rest."""


@dataclass(slots=True)
class Preemption:
    """What it asked of others, and others of it. Written by `preemption`."""

    at: float = float("-inf")
    """When others were last asked to leave for it."""
    gave_way: GaveWay | None = None
    """Kept in memory alone; what its pods say of it outlives a restart."""
    spared: dict[Uid, float] = field(default_factory=dict)
    """Victims that would not go, and until when they are not asked again."""


@dataclass(slots=True)
class RuntimeLimit:
    """The end that its max-runtime sets. Written by `runtime_limit`."""

    told: tuple[Reason, float] | None = None
    """What people were told last, and of which end."""
    suspend_again: float = float("-inf")
    """When its Job is suspended, or suspended once more."""
    look_at: float = float("inf")
    """When time alone calls for a warning, or for the end."""
    exceeded: float | None = None
    """The max-runtime in seconds for which it was ended, while pods of it may come again."""
    makers: frozenset[str] = frozenset()
    """Uids of the controllers whose pods were evicted for it, and of those of their Jobs: what they make next is not
    seated.
    """
