"""The JSON of nodes and of the cluster overview. The rules of `schemas` for times, spans and amounts apply.

Lives here: names and types. Never here: the source of a value.
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
    """The pods that are not bound yet and whose resources are reserved."""
    uses: dict[str, float]


class NodeRow(Part, frozen=True):
    """One node."""

    name: str
    schedulable: bool
    levels: dict[str, str]
    """Its domain by level, as a full path. A level is missing if the node does not have its label."""
    capacity: dict[str, float]
    free: dict[str, float]
    """May be negative if other schedulers overcommitted the node."""
    gangs: list[Tenant]
    others: Count
    """Pods of other schedulers."""


class NodeList(Part, frozen=True):
    """Nodes by name, page by page."""

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
    """Share in use, 0 … 1; more if other schedulers overcommitted nodes."""
    fragmentation: float | None
    """Share of the free amount that pods of current gangs cannot use where it is; null if no gang requests it."""


class ClusterStatus(Part, frozen=True):
    """An overview of the cluster."""

    version: str
    acting: bool
    synced: bool
    stale: bool
    """The cache may be stale. Gangwright places and evicts no pods until the API server answers again."""
    generation: Count
    nodes: Count
    schedulable: Count
    pods: Count
    gangs: dict[str, int]
    """By state, without gangs that are over."""
    waiting: Count
    """Gangs in the queue, including those that wait in vain."""
    oldest_wait_seconds: Seconds
    levels: list[str]
    level_labels: dict[str, str]
    """The node label that carries each level."""
    scheduler_names: list[str]
    """`spec.schedulerName` of the pods that Gangwright places."""
    resources: list[ResourceRow]
    user: str
    """The caller, as the API server knows it."""
