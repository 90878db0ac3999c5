"""The JSON of shares and of gangs that ended. The rules of `schemas` for times, spans and amounts apply.

Lives here: names and types. Never here: the source of a value.
"""

from scheduler.status.schemas import Count, Part, PreemptedRow, Seconds


class ShareAmount(Part, frozen=True):
    """One resource of a namespace, against its share in `queue.shares`."""

    used: float
    """Used by bound pods, or reserved for a gang."""
    guaranteed: float
    borrowed: float
    """Used above the guarantee, of a resource that some namespace is guaranteed. It may be reclaimed."""
    ceiling: float | None
    """Null if there is no ceiling, and in the row of hidden namespaces."""
    waiting: float | None
    """Requested by unassigned pods of pending gangs with a complete quorum; null from a standby replica."""


class ShareRow(Part, frozen=True):
    """One namespace."""

    namespace: str | None
    """Null in the last row: the sums over all namespaces whose names the caller may not read."""
    namespaces: Count
    """Number of namespaces in this row."""
    resources: dict[str, ShareAmount]


class ShareList(Part, frozen=True):
    """The namespaces of `queue.shares`, and namespaces without a share that use or request devices, by name."""

    acting: bool
    generation: Count
    unchecked: Count
    shares: list[ShareRow]


class HistoryRow(Part, frozen=True):
    """A gang that ended."""

    id: str
    namespace: str
    name: str
    owner: str | None
    """The controller of its pods as `Kind/name`; null if they had none."""
    waited_seconds: Seconds
    """Time from its first pod until its quorum was bound, or until its end if that never happened."""
    ran_seconds: Seconds
    """Time from the binding of its quorum until its end."""
    hours: dict[str, float]
    """Hours times pieces of each device that its pods had. For pods without a device, hours times cores (`cpu`)."""
    outcome: str
    """`succeeded`, `failed`, `preempted`, `runtime exceeded`, `suspended` or `deleted`."""
    preempted: PreemptedRow | None
    """The gang that preempted it, if any and if known."""
    ended: float


class HistoryList(Part, frozen=True):
    """Gangs that ended, the last first. The active replica keeps them in memory and loses them when it restarts."""

    acting: bool
    since: float | None
    """The list is complete since this time; null from a replica that has never been active."""
    unchecked: Count
    gangs: list[HistoryRow]
