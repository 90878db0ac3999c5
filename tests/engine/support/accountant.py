"""An accountant who trusts nobody: he adds up the raw pods and the holds, and knows nothing of the NodeTable."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from scheduler.engine import Engine
from scheduler.ledger.gang import GangRecord, Spec, Step
from scheduler.model.demand import Demand
from scheduler.model.workload import Phase, Pod, Uid
from tests.engine.support.api import FakeApi
from tests.engine.support.cast import FREELY


def placed(api: FakeApi, engine: Engine) -> Iterator[tuple[str, str, Demand]]:
    """(uid, node, demand) of every pod that is bound in the cluster or has a seat held, each place once.

    A seat that is only leased, because others have to leave it first, is no seat yet.
    """
    told = {(str(pod.uid), pod.node, pod.demand.requests) for pod in api.pods.values() if uses_room(pod)}
    for uid, node, requests in sorted(told, key=str):
        yield uid, str(node), Demand(requests)
    places = {(uid, node) for uid, node, _ in told}
    for record in engine.ledger.registry.gangs.values():
        waits = leased(record)
        for uid, member in record.members.items():
            held = member.hold is not None and uid not in waits
            if held and (str(uid), member.hold.node) not in places:
                yield str(uid), member.hold.node, member.pod.demand


def leased(record: GangRecord) -> frozenset[Uid]:
    """Members whose seats are held above what there is, until others have left."""
    plan = record.plan
    return frozenset(plan.seats) if plan is not None and plan.step is Step.FREE else frozenset()


def leases(api: FakeApi, engine: Engine) -> Iterator[tuple[str, str, Demand]]:
    """(uid, node, demand) of all that will use room when all have left who were asked to: leased seats are seats
    then.
    """
    going = {uid for plan in engine.ledger.freeing.values() for uid in plan.victims}
    going |= {pod.uid for pod in api.pods.values() if pod.deleting}
    there = {(uid, node): demand for uid, node, demand in placed(api, engine) if uid not in going}
    for record in engine.ledger.registry.gangs.values():
        for uid in leased(record):
            member = record.members.get(uid)
            if member is not None and member.hold is not None:
                there[str(uid), member.hold.node] = member.pod.demand
    yield from ((uid, node, demand) for (uid, node), demand in there.items())


def unknown_binds(api: FakeApi, engine: Engine) -> list[Pod]:
    """Pods of ours that are bound, while the ledger has not heard of it yet."""
    members = ((pod, engine.ledger.registry.member(pod.uid)) for pod in api.pods.values() if uses_room(pod))
    return [pod for pod, member in members if member is not None and member.pod.node is None]


def uses_room(pod: Pod) -> bool:
    return pod.node is not None and not pod.phase.ended


def overdrawn(api: FakeApi, engine: Engine) -> dict[str, str]:
    """Nodes on which bound, foreign and held pods need more than there is: name → what."""
    return above(api, placed(api, engine))


def above(api: FakeApi, places: Iterable[tuple[str, str, Demand]]) -> dict[str, str]:
    """Nodes on which these pods need more than there is: name → what."""
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for _, node, demand in places:
        for resource, amount in demand.requests:
            used[node][resource] += amount
    return {
        name: f"{resource}: {amount} of {dict(api.nodes[name].capacity).get(resource, 0)}"
        for name, amounts in used.items()
        if name in api.nodes
        for resource, amount in amounts.items()
        if amount > dict(api.nodes[name].capacity).get(resource, 0)
    }


def holding(record: GangRecord) -> set[Uid]:
    """Members for which the gang keeps room, and which are not bound, while its quorum is not bound either.

    A gang of which some run, and which cannot be taken down for it, may: it has the first claim on that room.
    """
    if record.was_bound or any(m.bound and not _made_again(m.pod) for m in record.live()):
        return set()
    there = sum(
        (m.bound and m.live) or m.pod.phase is Phase.SUCCEEDED
        for m in record.members.values()
        if not (m.pod.membership and m.pod.membership.surplus)
    )
    if not isinstance(record.spec, Spec) or there >= record.spec.total:
        return set()
    kept = (m for m in record.live() if m.hold is not None and m.hold.until is None and not m.bound)
    return {member.pod.uid for member in kept} - leased(record)


def _made_again(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind in FREELY


def residue(engine: Engine) -> dict[str, int]:
    """How much the ledger remembers: none of these grows with gangs that are gone."""
    ledger = engine.ledger
    return {
        "gangs": len(ledger.registry.gangs),
        "pods": ledger.registry.count,
        "owned": len(ledger.registry._owned),
        "holds": ledger.holds(),
        "places": sum(1 for _ in ledger.nodes.places()),
        "ports": len(ledger.nodes._ports),
        "wake": len(ledger._wake),
        "pending": len(ledger.pending),
        "nominated": len(ledger._nominated),
        "dirty": len(ledger._dirty),
        "untold": len(ledger._untold),
        "aging": len(ledger.pending._aging),
        "freeing": len(ledger.freeing),
        "deleted": len(ledger.deleted),
        "usage": len(ledger.share_usage._places),
    }
