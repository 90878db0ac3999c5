"""A witness of every choice of victims, at the moment at which it is made, and of every request to leave.

He adds up for himself who is of lower priority, who has borrowed, who has had more, and whom a gang can spare; and he
asks the planner once more, leaving out one victim at a time.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from scheduler.engine import Answer as Made
from scheduler.engine import Engine, Question, decide
from scheduler.ledger.backoff import RETRY_AFTER
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.healing import is_unreachable
from scheduler.model import events as ev
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Place, Reason
from scheduler.model.effects import Effect, Evict, Nominate, SuspendJob, Ungate
from scheduler.model.events import FailureKind
from scheduler.model.preemption_units import Kind, Preempt, Unit
from scheduler.model.queueing import Order, Reclaim, Share
from scheduler.model.workload import GangKey, GiveWay, Phase, Pod, PodKey, Uid
from scheduler.placement.order import LAST_BAND, band
from tests.engine.support.accountant import uses_room
from tests.engine.support.world import World
from tests.support.builders import GPU


@dataclass
class Making:
    """Room that is being made for a gang."""

    at: float
    plan: str
    uids: frozenset[Uid]
    life: int
    """The how-many-eth service it was."""


class Witness:
    """Stands beside the first engine of a world, and beside each that comes after a crash."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.all: list[Making] = []
        """Every choice of victims that was seen."""
        self.makings: dict[GangKey, Making] = {}
        self.waves: dict[GangKey, Making] = {}
        """The last for each gang for which anybody was asked to leave."""
        self.refused: dict[tuple[GangKey, Uid], float] = {}
        world.began = self.meet
        world.asked_for = self.asked_for
        self.meet(world.engine)

    def meet(self, engine: Engine) -> None:
        """What is written on a gang outlives the service; that somebody refused is asked anew."""
        self.refused.clear()
        settle, take = engine.settle, engine.ledger.take

        def settled(question: Question, answer: Made, now: float) -> list[Effect]:
            if not isinstance(answer, Preempt):
                if isinstance(answer, Place):
                    self.makings.pop(question.gang.key, None)
                effects = settle(question, answer, now)
                short = list(_short(engine, question.gang.key, answer)) if isinstance(answer, Place) else []
                assert not short, short
                return effects
            wrong = list(self._judge(engine, question, answer, now))
            before = engine.ledger.freeing.get(question.gang.key)
            effects = settle(question, answer, now)
            short = list(_short(engine, question.gang.key, answer))
            assert not short, short
            plan = engine.ledger.freeing.get(question.gang.key)
            if plan is None and not answer.victims:
                self.makings.pop(
                    question.gang.key, None
                )  # the room has come by itself, and the plan went on at once
            if plan is not None and plan is not before:
                assert not wrong, f"{question.gang.key} makes room: {wrong}"
                self._note(
                    question.gang.key, Making(now, plan.name, frozenset(answer.uids), self.world.lives)
                )
            return effects

        def taken(events: Sequence[ev.Event], now: float) -> None:
            for event in events:
                if isinstance(event, ev.EffectFailed) and event.kind is FailureKind.BUDGET:
                    self.refused[event.effect.gang, event.effect.uid] = now
            take(events, now)

        engine.settle = settled  # type: ignore[method-assign]
        engine.ledger.take = taken  # type: ignore[method-assign]

    def _note(self, key: GangKey, making: Making) -> None:
        self.makings[key] = making
        if making.uids:
            self.waves[key] = making
            self.all.append(making)

    # ── a choice ────────────────────────────────────────────────────────────────────────────────────────

    def _judge(self, engine: Engine, question: Question, answer: Preempt, now: float) -> Iterator[str]:
        record = engine.ledger.registry.gangs.get(question.gang.key)
        if record is None or not answer.victims:
            return
        yield from self._rights(engine, record, question, answer, now)
        yield from _whole(engine, answer)
        yield from _needless(engine, question, answer)
        last = self.waves.get(record.key)
        again = last is not None and last.life == self.world.lives
        if again and now < last.at + engine.policy.preemption_cooldown:
            yield f"I11: asks again after {now - last.at} s"

    def _rights(
        self, engine: Engine, record: GangRecord, question: Question, answer: Preempt, now: float
    ) -> Iterator[str]:
        """I8"""
        asking = [record.members.get(uid) for role in question.gang.roles for uid in role.quorum]
        if not engine.policy.preemption or not all(m is None or m.pod.preempts for m in asking):
            yield "I8: it must not preempt"
        for unit in answer.victims:
            pods = [pod for uid in unit.uids if (pod := engine.ledger.registry.pod(uid)) is not None]
            if unit.gang == record.key:
                yield "I8: it takes its own"
            lacking = [
                pod
                for pod in pods
                if not (pod.priority < record.priority or self._had_more(engine, record, unit, pod, now))
            ]
            if lacking and not _reclaimed(engine, record, question, answer, unit):
                yield f"I8: {lacking[0].key} of priority {lacking[0].priority} for one of {record.priority}"
        yield from _below_guarantee(engine, record, answer)

    def _had_more(self, engine: Engine, record: GangRecord, unit: Unit, pod: Pod, now: float) -> bool:
        policy = engine.policy
        if policy.order is not Order.LAS or unit.way is not GiveWay.SUSPEND:
            return False
        if pod.priority != record.priority or pod.bound_at is None:
            return False
        other = engine.ledger.registry.gangs[unit.gang]
        mine, its = (band(had(engine, one, now), policy.las_quantum) for one in (record, other))
        return its > mine or (its == mine == LAST_BAND and came(engine, record) < came(engine, other))

    # ── a request ───────────────────────────────────────────────────────────────────────────────────────

    def asked_for(self, effect: Effect) -> None:
        match effect:
            case SuspendJob(stays=None) | Evict(reason=Reason.PREEMPTED):
                self._asks(effect)
            case Ungate() | Nominate():
                self._lets_go(effect)

    def _asks(self, effect: Evict | SuspendJob) -> None:
        """I10, I11: only who was chosen, only for somebody who still waits, and a refusal is respected."""
        record = self.world.engine.ledger.registry.gangs.get(effect.gang)
        assert record is not None, f"{effect} for a gang that is gone"
        own = self.waves.get(effect.gang)
        before = [making for making in self.all if making.life < self.world.lives]
        known = ([own] if own is not None else []) + before  # a pod may have been of another gang then
        assert any(effect.uid in making.uids for making in known), f"{effect} was not chosen"
        refused = self.refused.get((effect.gang, effect.uid), float("-inf"))
        assert self.world.now >= refused + RETRY_AFTER[FailureKind.BUDGET], f"{effect} once more"

    def _lets_go(self, effect: Ungate | Nominate) -> None:
        """I6: of several gated pods nobody is let go before the plan is written. Nor is anybody let go to a seat while
        one of those is there who had to leave for it, unless nothing is heard of his node.
        """
        unwritten = list(self._unwritten(effect))
        assert not unwritten, f"{effect} while nobody carries the plan for {unwritten}"
        making = self.makings.get(effect.gang)
        if making is None or making.plan != effect.plan:
            return
        if making.life < self.world.lives and not making.uids & set(self.world.api.evicted):
            return  # it died before anybody was asked, and the room came by itself
        there = [pod for pod in self.world.api.pods.values() if pod.uid in making.uids and uses_room(pod)]
        left = [pod.key for pod in there if not self._is_cut_off(pod)]
        assert not left, f"{effect} while {left} are still there"

    def _is_cut_off(self, pod: Pod) -> bool:
        node = self.world.engine.ledger.nodes.get(pod.node or "")
        return pod.deleting and node is not None and is_unreachable(node)

    def _unwritten(self, effect: Ungate | Nominate) -> Iterator[PodKey]:
        """The pods of a plan that are all gated still, if there are several, and none ever carried it: a call of a
        service that is no more may have written over it since.
        """
        record = self.world.engine.ledger.registry.gangs.get(effect.gang)
        plan = record.plan if record is not None else None
        if plan is None or plan.name != effect.plan:
            return
        pods = [pod for pod in self.world.api.pods.values() if pod.uid in plan.seats]
        if len(pods) < len(plan.seats) or len(pods) < 2 or not all(pod.gated for pod in pods):
            return
        ever = (own.pod for own in reversed(self.world.api.feed) if isinstance(own, ev.PodSeen))
        if not any(pod.plan is not None and pod.plan.plan == plan.name for pod in chain(pods, ever)):
            yield from (pod.key for pod in pods)


def _reclaimed(engine: Engine, record: GangRecord, question: Question, answer: Preempt, unit: Unit) -> bool:
    """The unit leaves for something that is guaranteed to the gang's namespace, which is short, and which it has
    borrowed: without it the gang would lack that on a node on which it sits. Surplus goes with its gang.
    """
    policy, own = engine.policy, record.key.namespace
    if policy.reclaim is Reclaim.LOWER or unit.gang.namespace == own:
        return False
    if unit.kind is Kind.SURPLUS:
        whole = [o for o in answer.victims if o.gang == unit.gang and o.kind is Kind.GANG]
        if whole:
            return _reclaimed(engine, record, question, answer, whole[0])
    asked = {name for role in question.gang.roles for name, amount in role.demand.requests if amount}
    claimed = {name for name in guaranteed(engine, own) if name in asked}
    for name in claimed:
        needs = sum(
            dict(role.demand.requests).get(name, 0) * len(role.quorum) for role in question.gang.roles
        )
        if used(engine, own, name) + needs > guaranteed(engine, own)[name]:
            return False
    return _is_short(engine, question, claimed) and any(
        used(engine, unit.gang.namespace, name) > guaranteed(engine, unit.gang.namespace).get(name, 0)
        and _lacks(question, answer, unit, name)
        for name in claimed
    )


def _is_short(engine: Engine, question: Question, names: Container[str]) -> bool:
    """Of these resources alone the gang does not find enough where nobody leaves."""
    picture = _soon(question)
    roles = [
        replace(
            role,
            surplus=(),
            demand=replace(role.demand, requests=tuple(r for r in role.demand.requests if r[0] in names)),
        )
        for role in question.gang.roles
    ]
    asked = replace(question, snapshot=picture, gang=replace(question.gang, roles=tuple(roles)), making=None)
    return not isinstance(decide(asked, engine.policy), Place)


def _lacks(question: Question, answer: Preempt, unit: Unit, name: str) -> bool:
    """Were only this unit to stay, with the surplus that goes with it, the gang had too little of this where it
    sits.
    """
    picture = _soon(question)
    if name not in picture.axis.index:
        return False
    column, wants = picture.axis.index[name], {}
    for role in question.gang.roles:
        wants |= dict.fromkeys(role.quorum, dict(role.demand.requests).get(name, 0))
    left = {node: float(picture.free[row, column]) for node, row in picture.index.items()}
    for other in answer.victims:
        stays = other is unit or (unit.kind is Kind.GANG and other.gang == unit.gang)
        for row, uses in zip(other.rows, other.uses, strict=True) if not stays else ():
            left[picture.names[row]] += float(uses[column])
    needs: dict[str, float] = {}
    for uid, node in answer.seats.items():
        needs[node] = needs.get(node, 0.0) + wants[uid]
    return any(amount and left[node] < amount for node, amount in needs.items())


def _below_guarantee(engine: Engine, record: GangRecord, answer: Preempt) -> Iterator[str]:
    """Nobody takes of another namespace what it uses within its guarantee; who leaves already counts no longer."""
    going = {uid for plan in engine.ledger.freeing.values() for uid in plan.victims} | set(
        engine.ledger.deleted
    )
    for namespace in {unit.gang.namespace for unit in answer.victims} - {record.key.namespace}:
        for name, least in guaranteed(engine, namespace).items():
            before = used(engine, namespace, name, but=going)
            after = used(engine, namespace, name, but=going | set(answer.uids))
            if after < min(before, least):
                yield f"I8: {namespace} is left with {after} of {name}, and {least} are guaranteed to it"


def guaranteed(engine: Engine, namespace: str) -> dict[str, float]:
    return {name: least for name, least in engine.policy.shares.get(namespace, Share()).guaranteed if least}


def _soon(question: Question) -> Snapshot:
    """The picture without those who leave already."""
    picture = question.snapshot
    for stay in question.making.leaving if question.making is not None else ():
        picture = _freed(picture, stay.rows, stay.uses)
    return picture


def _whole(engine: Engine, answer: Preempt) -> Iterator[str]:
    """Gangs that give way leave whole, or keep their quorum; with a Job that is suspended nobody leaves who was not
    chosen.
    """
    leaving = set(answer.uids)
    suspended = {
        pod.owner.uid
        for unit in answer.victims
        if unit.way is GiveWay.SUSPEND
        if (pod := engine.ledger.registry.pod(unit.uids[0])) is not None and pod.owner is not None
    }
    for record in engine.ledger.registry.gangs.values():
        for m in record.live():
            if (
                m.bound
                and m.pod.owner is not None
                and m.pod.owner.uid in suspended
                and m.pod.uid not in leaving
            ):
                yield f"I8: {m.pod.key} goes with its Job"
    for key in {unit.gang for unit in answer.victims}:
        record = engine.ledger.registry.gangs.get(key)
        if record is None or not isinstance(record.spec, Spec):
            continue
        quorum = sum(record.spec.quorum.values())
        counted = [m for m in record.members.values() if not (m.pod.membership and m.pod.membership.surplus)]
        done = sum(m.pod.phase is Phase.SUCCEEDED for m in counted)
        there = [m for m in counted if m.bound and m.live]
        left = [m for m in there if m.pod.uid not in leaving]
        if left and len(left) + done < quorum <= len(there) + done:
            yield f"I8: {key} is left with {len(left)} of {quorum}"


def _needless(engine: Engine, question: Question, answer: Preempt) -> Iterator[str]:
    """I9: nobody could have been left out. The surplus of a gang that goes whole goes with it."""
    picture = _soon(question)
    whole = {unit.gang for unit in answer.victims if unit.kind is Kind.GANG}
    for one in answer.victims:
        if one.kind is Kind.SURPLUS and one.gang in whole:
            continue
        rest = picture
        for unit in answer.victims:
            if unit is not one and not (one.kind is Kind.GANG and unit.gang == one.gang):
                rest = _freed(rest, unit.rows, unit.uses)
        core = replace(question.gang, roles=tuple(replace(r, surplus=()) for r in question.gang.roles))
        asked = replace(question, snapshot=rest, gang=core, making=None)
        if isinstance(decide(asked, engine.policy), Place):
            yield f"I9: {one.uids} need not have left"


def _short(engine: Engine, key: GangKey, answer: Place | Preempt) -> Iterator[str]:
    """I3: who is given seats has all of its quorum at their places, or on their way there."""
    record = engine.ledger.registry.gangs.get(key)
    plan = record.plan if record is not None else None
    if record is None or plan is None or plan.seats != answer.seats or not isinstance(record.spec, Spec):
        return
    left = dict(record.spec.quorum)
    for member in record.members.values():
        said, pod = member.pod.membership, member.pod
        going = pod.deleting or pod.phase is Phase.FAILED or member.evicting is not None
        there = pod.phase is Phase.SUCCEEDED or (member.has_seat and not going)
        if there and not (said is not None and said.surplus):
            role = said.role if said is not None and said.role in left else ""
            left[role] = left.get(role, 0) - 1
    if any(least > 0 for least in left.values()):
        yield f"I3: {key} is given seats, and lacks {left} of its quorum"


def _freed(picture: Snapshot, rows: np.ndarray, uses: np.ndarray) -> Snapshot:
    free = picture.free.copy()
    np.add.at(free, rows, uses)
    return replace(picture, free=free)


def used(engine: Engine, namespace: str, name: str = GPU, but: Container[Uid] = ()) -> float:
    """What this namespace's pods use that are bound or have a seat held, and the places kept for those to come."""
    ledger = engine.ledger
    counted = {
        uid: member.pod.demand
        for key, record in ledger.registry.gangs.items()
        for uid, member in record.members.items()
        if key.namespace == namespace and (member.bound or member.hold is not None)
    }
    kept = {
        lease.name: lease.demand
        for move in ledger.migrations
        if move.gang.namespace == namespace
        for lease in move.leases
        if lease.old not in counted
    }
    return sum(
        dict(demand.requests).get(name, 0) for uid, demand in (counted | kept).items() if uid not in but
    )


def had(engine: Engine, record: GangRecord, now: float) -> float:
    """GPU-seconds of its pods that run, and of those before."""
    owners = {m.pod.owner.uid for m in record.members.values() if m.pod.owner is not None}
    before = sum(t.attained for uid in owners if (t := engine.ledger.owners.get(uid)) is not None)
    return before + sum(
        dict(m.pod.demand.requests).get(GPU, 0) * max(0.0, now - m.pod.bound_at)
        for m in record.live()
        if m.bound and m.pod.bound_at is not None
    )


def came(engine: Engine, record: GangRecord) -> float:
    """When its Job was made, or where it has none, when its first pod came."""
    uids = {m.pod.owner.uid for m in record.members.values() if m.pod.owner is not None}
    made = [t.created for uid in uids if (t := engine.ledger.owners.get(uid)) is not None]
    return min((at for at in made if at is not None), default=record.arrived)
