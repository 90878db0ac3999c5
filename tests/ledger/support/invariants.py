"""What is always true of a ledger, told as sentences about what is not."""

from collections import Counter
from collections.abc import Iterator

from scheduler.ledger import Ledger
from scheduler.ledger.counts import GangCounts, entry
from scheduler.ledger.namespace_usage import ShareUsage
from scheduler.ledger.registry import Registry


def broken(ledger: Ledger) -> list[str]:
    """Empty when all is well."""
    return [
        *of_holds(ledger),
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
