"""The JSON of nodes and of the cluster at a glance: as `schemas`, whose rules for times, spans and amounts hold here too.

Lives here: names and types. Never here: where a value comes from.
"""

from scheduler.status.schemas import Count, Part, Seconds


class Tenant(Part, frozen=True):
    """A gang's pods on one node."""

    id: str
    namespace: str | None
    name: str | None
    key: str | None
    pods: Count
    held: Count
    """Of the pods: not bound yet, their room is kept."""
    uses: dict[str, float]


class NodeRow(Part, frozen=True):
    """One node."""

    name: str
    schedulable: bool
    levels: dict[str, str]
    """The domain it is in, by level, as its whole path; a level whose label it lacks is missing."""
    capacity: dict[str, float]
    free: dict[str, float]
    """May be below zero where others overdrew."""
    gangs: list[Tenant]
    others: Count
    """Pods of other schedulers."""


class NodeList(Part, frozen=True):
    """Nodes in the order of their names, page by page."""

    acting: bool
    generation: Count
    total: Count
    offset: Count
    next: Count | None
    unchecked: Count
    levels: list[str]
    """From the coarsest to the finest."""
    nodes: list[NodeRow]


class ResourceRow(Part, frozen=True):
    """One resource over the whole cluster."""

    name: str
    capacity: float
    free: float
    use: float
    """Share in use, 0 … 1; more where others overdrew."""
    fragmentation: float | None
    """Share of the free amount that the pods of present gangs cannot use where it is; null when no gang asks for it."""


class ClusterStatus(Part, frozen=True):
    """The cluster at a glance."""

    version: str
    acting: bool
    synced: bool
    stale: bool
    """What is known may be the past: no pod is placed or evicted by it until the API server is seen again."""
    generation: Count
    nodes: Count
    schedulable: Count
    pods: Count
    gangs: dict[str, int]
    """By state; those that are over are not counted."""
    waiting: Count
    """Gangs in the queue, also those that wait in vain."""
    oldest_wait_seconds: Seconds
    levels: list[str]
    level_labels: dict[str, str]
    """The node label that carries each level."""
    scheduler_names: list[str]
    """`spec.schedulerName` of the pods that Gangwright places."""
    resources: list[ResourceRow]
    user: str
    """Who asks, as the API server knows him."""
