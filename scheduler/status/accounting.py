"""The JSON of what namespaces use and may, and of gangs that ended: as `schemas`, whose rules for times, spans and amounts
hold here too.

Lives here: names and types. Never here: where a value comes from.
"""

from scheduler.status.schemas import Count, Part, PreemptedRow, Seconds


class ShareAmount(Part, frozen=True):
    """One resource of a namespace, against its share in `queue.shares`."""

    used: float
    """By bound pods, and by seats that are kept."""
    guaranteed: float
    borrowed: float
    """Used beyond what is guaranteed, of a resource that some namespace is guaranteed: it may be taken back."""
    ceiling: float | None
    """Null where nothing limits it, and in the row of hidden namespaces."""
    waiting: float | None
    """Asked for by pods without a seat, of gangs that wait with their whole quorum; null from a replica that does not
    act."""


class ShareRow(Part, frozen=True):
    """One namespace."""

    namespace: str | None
    """Null in the last row: the sums over all namespaces whose names the asker may not read."""
    namespaces: Count
    """How many the row stands for."""
    resources: dict[str, ShareAmount]


class ShareList(Part, frozen=True):
    """The namespaces of `queue.shares`, and those that use devices or wait for some without a share, by name."""

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
    """The controller of its pods as `Kind/name`; null where they had none."""
    waited_seconds: Seconds
    """From its first pod to the bind of its quorum, or to its end where that never came."""
    ran_seconds: Seconds
    """From the bind of its quorum to its end."""
    hours: dict[str, float]
    """Hours times pieces, of each device that its pods had; of pods without a device, hours times cores (`cpu`)."""
    outcome: str
    """`succeeded`, `failed`, `preempted`, `runtime exceeded`, `suspended` or `deleted`."""
    preempted: PreemptedRow | None
    """The gang that preempted it, where one did and is known."""
    ended: float


class HistoryList(Part, frozen=True):
    """Gangs that ended, the last first. Kept in memory by the replica that acts: lost when it restarts."""

    acting: bool
    since: float | None
    """All that ended since then were kept; null from a replica that has never acted."""
    unchecked: Count
    gangs: list[HistoryRow]
