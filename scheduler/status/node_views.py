"""Nodes and the cluster as users see them: the engine's snapshot → response schemas. Pure, in steps like `gang_views`.

Lives here: which gangs are on which node, and how full it is. Never here: why a gang waits.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler import __version__
from scheduler.engine import Engine
from scheduler.ledger.gang import GangRecord, Member
from scheduler.model.cluster import NOWHERE, Snapshot
from scheduler.model.resources import Vector, is_shown
from scheduler.model.workload import GangKey
from scheduler.status import inactive_gangs, node_schemas
from scheduler.status.authorization import Sight
from scheduler.status.gang_views import Page, Steps, batched, each_gang, name_of, state


@dataclass(slots=True)
class _Use:
    """What one gang uses on one node."""

    name: str
    pods: int = 0
    held: int = 0
    uses: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


@dataclass(frozen=True, slots=True)
class Survey:
    """The gangs on each node in one snapshot of the cluster: the common basis of all pages of nodes."""

    picture: Snapshot
    tenants: Mapping[str, Mapping[GangKey, _Use]]
    others: Mapping[str, int]


def survey(engine: Engine) -> Steps[Survey]:
    """Process every gang once."""
    picture = engine.snapshot()
    tenants: dict[str, dict[GangKey, _Use]] = {name: {} for name in picture.names}
    for records in each_gang(engine):
        for record in records:
            _settle(record, tenants)
        yield
    foreign = engine.ledger.registry.foreign_pods.values()
    return Survey(picture, tenants, Counter(pod.node for pod in foreign if pod.node is not None))


def nodes(
    engine: Engine, sight: Sight, page: Page, known: Survey | None = None
) -> Steps[node_schemas.NodeList]:
    """Nodes by name, with the gangs on them. known: a survey that is recent enough."""
    found = known or (yield from survey(engine))
    picture = found.picture
    rows: list[node_schemas.NodeRow] = []
    for row in range(len(picture.names))[page.offset : page.offset + page.limit]:
        name = picture.names[row]
        rows.append(_node(picture, row, found.tenants[name], found.others.get(name, 0), sight))
        if not len(rows) % 64:
            yield
    end = page.offset + len(rows)
    return node_schemas.NodeList(
        acting=engine.ledger.acting,
        generation=picture.generation,
        total=len(picture.names),
        offset=page.offset,
        next=end if end < len(picture.names) else None,
        unchecked=sight.unchecked,
        levels=_levels(picture),
        nodes=rows,
    )


def _settle(record: GangRecord, tenants: Mapping[str, dict[GangKey, _Use]]) -> None:
    """Record the nodes of a gang's members."""
    for member in record.members.values():
        node = place(member)
        if node is None or node not in tenants:
            continue
        use = tenants[node].setdefault(record.key, _Use(name_of(record)))
        use.pods += 1
        use.held += not member.bound
        for resource, amount in member.pod.demand.requests:
            use.uses[resource] += amount


def place(member: Member) -> str | None:
    """The node whose resources a member uses."""
    if member.bound:
        return member.pod.node
    return member.hold.node if member.hold is not None else None


def _node(
    picture: Snapshot, row: int, tenants: Mapping[GangKey, _Use], others: int, sight: Sight
) -> node_schemas.NodeRow:
    topology = picture.topology
    levels = {
        level.name: topology.domains[column][topology.coords[row, column]]
        for column, level in enumerate(topology.levels)
        if topology.coords[row, column] != NOWHERE
    }
    gangs = [_tenant(key, use, sight) for key, use in tenants.items()]
    gangs.sort(key=lambda tenant: tenant.id)
    return node_schemas.NodeRow(
        name=picture.names[row],
        schedulable=bool(picture.schedulable[row]),
        levels=levels,
        capacity=_amounts(picture, picture.capacity[row]),
        free=_amounts(picture, picture.free[row], picture.capacity[row]),
        gangs=gangs,
        others=others,
    )


def _tenant(key: GangKey, use: _Use, sight: Sight) -> node_schemas.Tenant:
    sees = sight.sees(key)
    return node_schemas.Tenant(
        id=sight.alias(key),
        namespace=key.namespace if sees else None,
        name=use.name if sees else None,
        key=key.name if sees else None,
        pods=use.pods,
        held=use.held,
        uses=dict(sorted(use.uses.items())),
    )


def _amounts(picture: Snapshot, values: Vector, where: Vector | None = None) -> dict[str, float]:
    """By resource. Omits resources whose amount is zero, both here and in `where`."""
    has = values if where is None else where
    return {
        name: float(values[i])
        for i, name in enumerate(picture.axis.names)
        if (has[i] or values[i]) and is_shown(name)
    }


def _levels(picture: Snapshot) -> list[str]:
    return [level.name for level in reversed(picture.topology.levels)]


def cluster(
    engine: Engine, now: float, user: str, fragmentation: Mapping[str, float]
) -> Steps[node_schemas.ClusterStatus]:
    """An overview of the cluster. fragmentation: by resource, as `placement.scoring` computes it."""
    ledger, picture = engine.ledger, engine.snapshot()
    gangs: Counter[str] = Counter()
    for records in each_gang(engine):
        gangs.update(state(engine, record) for record in records)
        yield
    del gangs[inactive_gangs.OVER]
    for some in batched(list(ledger.registry.asleep)):
        gangs.update(inactive_gangs.SUSPENDED for key in some if inactive_gangs.is_without_pods(engine, key))
        yield
    return node_schemas.ClusterStatus(
        version=__version__,
        acting=ledger.acting,
        synced=ledger.synced,
        stale=ledger.blind,
        generation=picture.generation,
        nodes=len(picture.names),
        schedulable=int(picture.schedulable.sum()),
        pods=ledger.registry.count,
        gangs=dict(sorted(gangs.items())),
        waiting=len(ledger.pending),
        oldest_wait_seconds=round(max(0.0, ledger.oldest_wait(now)), 1),
        levels=_levels(picture),
        level_labels={level.name: level.label for level in picture.topology.levels},
        scheduler_names=sorted(engine.policy.scheduler_names),
        resources=_resources(picture, fragmentation),
        user=user,
    )


def _resources(picture: Snapshot, fragmentation: Mapping[str, float]) -> list[node_schemas.ResourceRow]:
    capacity, free = picture.capacity.sum(axis=0), picture.free.sum(axis=0)
    return [
        node_schemas.ResourceRow(
            name=name,
            capacity=float(capacity[i]),
            free=float(free[i]),
            use=round(float(1 - free[i] / capacity[i]), 4),
            fragmentation=fragmentation.get(name),
        )
        for i, name in enumerate(picture.axis.names)
        if capacity[i] > 0 and is_shown(name)
    ]
