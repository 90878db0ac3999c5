"""What is always true of a ledger, told as sentences about what is not."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from scheduler.ledger import Ledger
from scheduler.ledger.counts import GangCounts, entry
from scheduler.ledger.namespace_usage import ShareUsage
from scheduler.ledger.node_columns import NodeColumns
from scheduler.ledger.node_table import NodeTable
from scheduler.ledger.registry import Registry
from scheduler.model.admission import obstacles
from scheduler.model.demand import Demand


def broken(ledger: Ledger) -> list[str]:
    """Empty when all is well."""
    return [
        *of_holds(ledger),
        *of_nodes(ledger.nodes),
        *of_registry(ledger.registry),
        *of_counts(ledger._counted(), ledger.registry),
        *of_shares(ledger.share_usage, ledger.registry),
        *(f"a step failed on {fault.gang}: {fault.error!r}" for fault in ledger.faults._untold),
    ]


def of_holds(ledger: Ledger) -> Iterator[str]:
    """Holds are told by the members, by an index and by the use of room; no unknown pod uses room."""
    members = [(uid, m) for own in ledger.registry.gangs.values() for uid, m in own.members.items()]
    held = {uid: member.hold.node for uid, member in members if member.hold is not None}
    leased = ledger.migrations.names()
    for uid, node in held.items():
        if ledger.nodes.place(uid) != node:
            yield f"hold of {uid} on {node} is not counted"
    if held != ledger._holding:
        yield "the index of holds differs from the holds"
    for uid, _, _ in ledger.nodes.places():
        if not (ledger.registry.knows(uid) or uid in leased):
            yield f"{uid} uses room and is not known"


def of_nodes(table: NodeTable) -> Iterator[str]:
    """The columns are those that all nodes and pods give, however they were adapted, and so is each cached answer."""
    kept = table._now()
    whole = NodeColumns.of([table._nodes[name] for name in sorted(table._nodes)], table._levels)
    for name in ("nodes", "axis", "names", "index"):
        if getattr(kept, name) != getattr(whole, name):
            yield f"the nodes' {name} are not those of all nodes"
    if [kept.rows[number] for number in kept.numbers] != list(range(len(kept.names))):
        yield "the numbers of nodes do not lead to their rows"
    if sum(kept.rows >= 0) != len(kept.names):
        yield "a number of a deleted node has a row"
    for name in ("capacity", "schedulable"):
        if not np.array_equal(getattr(kept, name), getattr(whole, name)):
            yield f"the nodes' {name} is not that of all nodes"
    if kept.topology.domains != whole.topology.domains:
        yield "the domains are not those of all nodes"
    if not np.array_equal(kept.topology.coords, whole.topology.coords):
        yield "the coords are not those of all nodes"
    if list(kept.labels) != list(whole.labels):
        yield "the labels are not those of all nodes"
    for key, own in whole.labels.items():
        column = kept.labels.get(key)
        if column is None or column.values != own.values or not np.array_equal(column.codes, own.codes):
            yield f"the column of the label {key} is not that of all nodes"
    marks = [[(taint, mask.tolist()) for taint, mask in columns.taints] for columns in (kept, whole)]
    if marks[0] != marks[1]:
        yield "the taints are not those of all nodes"
    used, unserved = np.zeros(whole.capacity.shape), defaultdict[str, Counter](Counter)
    for _, node, demand in table.places():
        for name, amount in demand.requests if node in whole.index else ():
            if name in whole.axis.index:
                used[whole.index[node], whole.axis.index[name]] += amount
            else:
                unserved[name][node] += amount
        if not np.array_equal(table.vector(demand), whole.axis.part(demand.requests)):
            yield f"the vector kept of {demand.requests} is not in the columns"
    if {name: own for name, own in table._unserved.items() if own} != unserved:
        yield "what is used of resources that no node has is not the sum over the pods"
    if not np.array_equal(used, table._used):
        yield "what is used is not the sum over the pods"
    if {uid: node for uid, node, _ in table.places()} != table._node_of:
        yield "the pods of the nodes and the nodes of the pods disagree"
    for (node, *where), known in table._admits.items():
        row = whole.index[str(node)]
        demand = Demand((), *where)
        closed = obstacles(whole, demand, slice(row, row + 1)).values()
        if known == any(bool(mask[0]) for mask in closed):
            yield f"{node} admits {demand} by its cached answer only, or the other way round"


def of_registry(registry: Registry) -> Iterator[str]:
    """Every pod is in the gang in which it is said to be, and no gang is without pods."""
    members = {uid: key for key, record in registry.gangs.items() for uid in record.members}
    if members != registry.gang_of:
        yield "the registry and the gangs disagree"
    for key, record in registry.gangs.items():
        if not record.members:
            yield f"gang {key} has no members"


def of_counts(counts: GangCounts, registry: Registry) -> Iterator[str]:
    """Every gang is counted once, as it is."""
    for key, record in registry.gangs.items():
        if counts._entries.get(key) != entry(record):
            yield f"gang {key} changed and was not counted again"
    if len(counts._entries) != len(registry.gangs) or counts.cases.total() != len(registry.gangs):
        yield "the counts have gangs that are not there"
    whole: Counter = Counter()
    for own in counts._entries.values():
        for demand, count in own.demands:
            whole[demand] += count
    if counts.demands != whole:
        yield "the counts have demands that are not there"


def of_shares(usage: ShareUsage, registry: Registry) -> Iterator[str]:
    """The sums are those of exactly the pods with a place, and of the seats that are kept in the place of one."""
    members = [(uid, m) for record in registry.gangs.values() for uid, m in record.members.items()]
    pods = {uid: m.pod for uid, m in members if m.has_seat}
    wanted = {uid: (pod.key.namespace, pod.demand.requests) for uid, pod in pods.items()}
    for old, (name, namespace, demand) in usage._kept.items():
        wanted |= {} if old in pods else {name: (namespace, demand.requests)}
    counted = {uid: (namespace, demand.requests) for uid, (namespace, demand) in usage._places.items()}
    if counted != wanted:
        yield "the use of namespaces is not that of their pods"
