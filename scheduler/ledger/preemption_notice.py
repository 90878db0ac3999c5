"""A pod that gives way for a gang learns it: an event on it and its owner, a condition on it, and our own memory.

It is told once the API server has taken the request: an eviction that a budget refuses is not told. Lives here: what is
said. Never here: which pod gives way (preemption). A gang of the same namespace is named. Of one of another namespace
people read its priority and the uid of a pod, as kube-scheduler tells it: its name is hidden from them.
"""

from scheduler.ledger import gang_spec
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Plan, Victim
from scheduler.ledger.messages import GaveWay
from scheduler.model.decision import TEXT, Reason
from scheduler.model.effects import Announce, Effect
from scheduler.model.workload import GiveWay, Uid


def gave_way(
    cache: Cache, record: GangRecord, plan: Plan, uid: Uid, victim: Victim, now: float
) -> list[Effect]:
    """The API server took the request: this victim leaves for the gang of `record`."""
    speaker = min(record.members.values(), key=lambda member: member.arrival).pod
    name = speaker.key.name if gang_spec.is_gang_of_one(record.key) else record.key.name
    loser = cache.registry.gangs.get(victim.gang)
    if loser is not None:
        loser.gave_way = GaveWay(record.key, name, record.priority, now)
    if victim.node is not None and victim.owner is not None:
        cache.spared_owners.leave_alone(victim.owner.uid, now)
        cache.spared_owners.made_room(victim.node, record.key)
    # A controller is told once, however many of its pods leave.
    owner = victim.owner if victim.owner is not None and victim.owner.uid not in plan.told else None
    plan.told |= {owner.uid} if owner is not None else set()
    full = f"{record.key.namespace}/{name}"
    winner = called("gang", full, speaker.uid, hidden=record.key.namespace != victim.key.namespace)
    text = f"{TEXT[Reason.PREEMPTED]}: {winner}, of priority {record.priority}"
    evicted = victim.way is GiveWay.EVICT
    return [Announce(victim.gang, uid, victim.key, owner, Reason.PREEMPTED, text, disrupted=evicted)]


def called(kind: str, name: str, uid: Uid, *, hidden: bool) -> str:
    """A gang or pod by its name; where its reader may not know that, by the uid of a pod."""
    return f"a {kind} of another namespace (pod uid {uid})" if hidden else f"{kind} {name}"
