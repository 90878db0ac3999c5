"""Places of members that were lost, kept for their successors: the rest of the gang stands idle until these run.

Lives here: which places are kept, for how long, and what ends that. Never here: how a successor takes its place
(migration). All of it is memory: a restart forgets it, as it forgets the seats that a drain keeps.
"""

from typing import Final

from scheduler.ledger import gang_spec, migration, quorum
from scheduler.ledger.backoff import doubled
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Member, Spec
from scheduler.ledger.leases import Lease, Migration
from scheduler.ledger.registry import lineage
from scheduler.model.workload import GangKey, Owner, Phase

FIRST: Final = 10.0
"""Seconds that a Job waits after its first failure; twice as long after each further one."""

LONGEST: Final = 360.0
"""Seconds at which Kubernetes documents the end of that doubling."""

MARGIN: Final = 30.0
"""Seconds for an owner that waits for nothing to make the pod, on a busy cluster, and for us to see it."""

WATCHED: Final = frozenset({"Job", "StatefulSet"})
"""Kinds of owners of which we see that one is gone."""


def lost(cache: Cache, member: Member, now: float) -> None:
    """This member ends without success, or is gone: its place is kept, where its gang was whole.

    Not where we or the cluster took it away, for others are to have the room. Whether the quorum needs it, and another
    will come, is for `tend` to say, when all that has happened is known.
    """
    pod, record = member.pod, cache.registry.gangs[cache.registry.gang_of[member.pod.uid]]
    ours = member.worked and record.was_bound and not quorum.is_surplus(member)
    taken = member.evicting is not None or pod.disrupted or pod.phase is Phase.SUCCEEDED
    if not cache.ready or not ours or taken or pod.node is None or pod.owner is None:
        return
    spec = record.spec or gang_spec.spec(record, cache.groups, cache.policy)
    if not isinstance(spec, Spec) or spec.total < 2 or record.key in cache.migrations:
        return
    move = cache.migrations.vacancy(record.key)
    if move is None:
        move = Migration(record.key, lineage(record.key, pod), False, [], [], now, vacancy=True)
        cache.migrations.put(move)
    cache.migrations.last(move, max(move.by, now + _patience(cache, pod.owner)))
    lease = Lease(pod.uid, pod.node, quorum.role_of(member, spec), pod.demand, pod.owner)
    migration.keep(cache, move, lease)


def _patience(cache: Cache, owner: Owner) -> float:
    """Seconds for which a place is kept: as long as the owner waits, and a margin."""
    traits = cache.owners.get(owner.uid)
    if owner.kind != "Job" or traits is None:
        return MARGIN
    return MARGIN + doubled(FIRST, traits.failed, LONGEST)


def tend(cache: Cache, record: GangRecord, now: float) -> None:
    """Give back places that the quorum does not lack, that are no longer to be had, or that suit no successor."""
    move = cache.migrations.vacancy(record.key)
    if move is None:
        record.kept = ()
        return
    spec = record.spec
    missing = quorum.lacking(record, spec).lacks if isinstance(spec, Spec) else {}
    waits = any(member.bound for member in record.live()) and not _suits_none(cache, record, now)
    for lease in list(move.leases):
        if waits and missing.get(lease.role, 0) > 0 and _is_to_be_had(cache, record, lease):
            missing[lease.role] -= 1
        else:
            migration.give_back(cache, move, lease)
    record.kept = tuple(sorted(lease.node for lease in move.leases))


def gone(cache: Cache, key: GangKey) -> None:
    """This gang is no more, so none of it stands idle."""
    if (move := cache.migrations.vacancy(key)) is not None:
        for lease in list(move.leases):
            migration.give_back(cache, move, lease)


def _suits_none(cache: Cache, record: GangRecord, now: float) -> bool:
    """All that the quorum lacks are there, and not each of them has a place: the planner finds room for all."""
    if not isinstance(record.spec, Spec) or not cache.is_idle(record, now):
        return False
    gang = quorum.request(record, record.spec, cache.policy)
    return gang is not None and migration.match(cache, record, gang) is None


def _is_to_be_had(cache: Cache, record: GangRecord, lease: Lease) -> bool:
    """Its owner makes another pod, and the node takes it."""
    owner, node, demand = lease.owner, cache.nodes.get(lease.node), lease.demand
    if owner is None or node is None or lease.node in record.pinning.barred_nodes:
        return False
    traits = cache.owners.get(owner.uid)
    makes = not (traits.ended or traits.suspended) if traits is not None else owner.kind not in WATCHED
    takes = cache.nodes.admits(lease.node, demand)
    return makes and takes and not cache.nodes.is_overdrawn(lease.node, demand)
