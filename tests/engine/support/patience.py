"""Whether somebody waits beside room: the planner itself is asked, once all has come to rest.

The accountant's own answer (`machine`) knows gangs of equal pods alone; of roles, levels and surplus the planner is
asked. A fault of the planner itself is not seen here, nor that the engine asks it the wrong question; one that leaves
somebody unasked is.
"""

from dataclasses import replace

from scheduler.engine.planning import Question, decide
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.ledger import Ledger
from scheduler.model.decision import Place
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order
from scheduler.model.workload import Pod, Uid
from tests.engine.support.world import World


def waits_beside_room(world: World, policy: Policy) -> str:
    """Who waits though there is room for it, or though room could be made for it; empty: nobody."""
    if policy.order is Order.LAS:
        return ""  # whose turn it is changes with the time
    engine, now = world.engine, world.now
    due = [record for record in engine.ledger.pending.queue() if record.wanted and record.wanted.quorum]
    due = [record for record in due if record.backoff.not_before <= now]
    for place, record in enumerate(due):
        question = engine.cycle.about(record, record.wanted, now)
        if isinstance(decide(question, policy), Place) and not (place and policy.backfill is Backfill.NONE):
            return f"{record.key} waits beside room for it: {record}"
        if not place and _may_ask(record, engine.ledger, policy, question, now):
            emptied = _without(engine.ledger, record, question, now)
            if isinstance(decide(emptied, policy), Place):
                return f"{record.key} waits, and nobody gives way: {record}"
    return ""


def _may_ask(record: GangRecord, ledger: Ledger, policy: Policy, question: Question, now: float) -> bool:
    """Others could be asked to leave for it now. What shares allow is for others to judge."""
    live = [member.pod for member in record.live()]
    return (
        policy.preemption
        and not ledger.share_usage.shares
        and question.told is None
        and now >= record.preemption.at + policy.preemption_cooldown
        and all(pod.preempts and not pod.nominated for pod in live)
    )


def _without(ledger: Ledger, record: GangRecord, question: Question, now: float) -> Question:
    """The same question, if all who may be asked to leave for it had left."""
    snapshot = question.snapshot
    free = snapshot.free.copy()
    for pod in _lower(ledger, record, now):
        row = snapshot.index.get(pod.node or "")
        if row is not None:
            uses = ledger.nodes.vector(pod.demand)[None]
            free[row] += ledger.neighbors.widened(snapshot, [pod.uid], uses)[0]
    return replace(question, snapshot=replace(snapshot, free=free))


def _lower(ledger: Ledger, record: GangRecord, now: float) -> list[Pod]:
    """Pods of lower priority whose gang is not on its way to more seats, none of them spared."""
    makers = {member.pod.owner.uid for member in record.live() if member.pod.owner}
    found: list[Pod] = []
    for other in ledger.registry.gangs.values():
        bound = [member.pod for member in other.live() if member.bound]
        comes = any(member.hold for member in other.live() if not member.bound)
        mine = any(pod.owner and pod.owner.uid in makers for pod in bound)
        spared = any(_is_spared(record, uid, now) for uid in other.members)
        if other is record or comes or mine or spared:
            continue
        if all(pod.priority < record.wanted.priority for pod in bound):
            found += bound
    for pod in ledger.registry.foreign_pods.values():
        if (
            pod.priority < record.wanted.priority
            and not pod.deleting
            and not _is_spared(record, pod.uid, now)
        ):
            found.append(pod)
    return found


def _is_spared(record: GangRecord, uid: Uid, now: float) -> bool:
    return record.preemption.spared.get(uid, now) > now
