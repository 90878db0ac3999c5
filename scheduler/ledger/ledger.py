"""The one way in which memory changes: `handle(events, now) → effects`.

Events are taken in one after the other; then every gang that they touched is looked at once, however many of
its members were touched (`care.look_after`). `now` is any clock that never goes back, in seconds.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any

from scheduler.ledger import (
    attained,
    books,
    care,
    duty,
    faults,
    freeing,
    moving,
    outcomes,
    pins,
    pods,
    roster,
    surroundings,
    verdicts,
)
from scheduler.ledger.applying import as_waiting
from scheduler.ledger.budgets import Budgets
from scheduler.ledger.census import Case, Census
from scheduler.ledger.comebacks import Comebacks
from scheduler.ledger.nodes import NodeTable
from scheduler.ledger.quotas import Quotas
from scheduler.ledger.records import UNASKED, GangRecord, Hold, Member, Plan, Spec, Step
from scheduler.ledger.resuming import Paused
from scheduler.ledger.rivals import Rivals
from scheduler.ledger.roll import Roll
from scheduler.ledger.runtimes import Runtimes
from scheduler.ledger.spares import Spares
from scheduler.ledger.tally import Tally
from scheduler.ledger.telling import Telling
from scheduler.ledger.timers import Timers
from scheduler.ledger.usage import Usages
from scheduler.ledger.wanting import Wanting
from scheduler.model import events as ev
from scheduler.model.cluster import Snapshot
from scheduler.model.demand import Demand
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.model.queueing import Order
from scheduler.model.workload import Gang, GangKey, Group, OwnerTraits, Pod, Uid

FOREVER = float("inf")


class Ledger:
    """What is bound, held and waiting. Pure: no clock, no I/O; equal events give equal effects."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.nodes = NodeTable(policy.levels)
        self.roll = Roll()
        self.spares = Spares()
        self._census = Census()
        self.groups: dict[tuple[str, GangKey], Group] = {}
        self.owners: dict[str, OwnerTraits] = {}
        self.quotas = Quotas()
        self.budgets = Budgets()
        self.tally = Tally()
        self.faults = faults.Faults()
        self.synced = False
        self.acting = False
        self.blind = False
        """What we know may be the past."""
        self.wanting = Wanting()
        self.usage = Usages(policy.shares)
        self.runtimes = Runtimes()
        self.rivals = Rivals()
        self.comebacks = Comebacks()
        self.paused = Paused()
        self.moves = moving.Moves()
        self.telling = Telling()
        self.suspendable: dict[GangKey, GangRecord] = {}
        """Gangs with a seat that would be suspended if they had to give way."""
        self.looks = 0
        """Grows whenever any gang is looked at, or is gone: what was made of all of them before may be stale."""
        self.freeing: dict[GangKey, Plan] = {}
        """Plans whose room others have to leave first, by the gang that waits for it."""
        self.deleted: dict[Uid, Pod] = {}
        """Bound pods that are on their way out, ours and others'."""
        self.lowest = self.highest = 0
        """No pod that we have ever seen had a lower priority, and none of ours a higher one: strangers ask for nothing."""
        self.standing = 0
        """Changes when there may be somebody new who could be asked to leave for another."""
        self.freed_at = -1
        """The room when those for whom others leave were looked at last."""
        self._nominated: dict[Uid, tuple[str, int, Demand]] = {}
        self._holding: dict[Uid, str] = {}
        self._dirty: dict[GangKey, None] = {}
        self._untold: dict[GangKey, None] = {}
        self._wake = Timers()
        self._effects: list[Effect] = []
        self._take: Mapping[type, Callable[[Any, float], None]] = {
            ev.NodeSeen: partial(surroundings.node_seen, self),
            ev.NodeGone: partial(surroundings.node_gone, self),
            ev.PodSeen: self._pod_seen,
            ev.PodGone: self._pod_gone,
            ev.GroupSeen: partial(surroundings.group_seen, self),
            ev.GroupGone: partial(surroundings.group_gone, self),
            ev.OwnerSeen: partial(surroundings.owner_seen, self),
            ev.OwnerGone: partial(surroundings.owner_gone, self),
            ev.QuotaSeen: partial(surroundings.quota_seen, self),
            ev.QuotaGone: partial(surroundings.quota_gone, self),
            ev.BudgetSeen: partial(surroundings.budget_seen, self),
            ev.BudgetGone: partial(surroundings.budget_gone, self),
            ev.Asked: partial(verdicts.asked, self),
            ev.Scored: partial(verdicts.scored, self),
            ev.Decided: partial(verdicts.decided, self),
            ev.Freed: partial(verdicts.freed, self),
            ev.MoveFound: partial(moving.begin, self),
            ev.PolicyChanged: partial(surroundings.policy_changed, self),
            ev.EffectDone: self._effect_done,
            ev.EffectFailed: self._effect_failed,
            ev.Synced: partial(duty.synced, self),
            ev.TookOver: partial(duty.took_over, self),
            ev.LostSight: partial(duty.lost_sight, self),
            ev.SawAgain: partial(duty.saw_again, self),
            ev.Tick: self._tick,
        }

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, events: Iterable[ev.Event], now: float) -> list[Effect]:
        """Take in what happened, and return what is to be done about it, in order."""
        self.take(events, now)
        return self.settle(now)

    def take(self, events: Iterable[ev.Event], now: float) -> None:
        """Take in what happened, which is quick; what follows from it is told by the next `settle`."""
        for event in events:
            try:
                self._take[type(event)](event, now)
            except Exception as error:  # noqa: BLE001 - the others count
                faults.broke(self, faults.gang_of(self, event), error, now)

    def settle(self, now: float) -> list[Effect]:
        """Look once at every gang that was touched since, tell people of those with another verdict; what is to be
        done, in order.
        """
        self._settle(now)
        effects, self._effects = self._effects, []
        return effects

    def mark(self, key: GangKey, *, anew: bool = False) -> None:
        """Look at this gang when the events have been taken in; `anew`: also at what it says of itself."""
        record = self.roll.gangs.get(key)
        if record is not None:
            self._dirty[key] = None
            self._census.touch(key)
            self.wanting.touch(record)
            if anew:
                record.spec = None

    def mark_told(self, key: GangKey) -> None:
        """Tell people of this gang what it was told meanwhile; nothing else about it has changed."""
        self._untold[key] = None
        self._census.touch(key)

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self, but: Container[Uid] = ()) -> Snapshot:
        """One picture of the cluster now: bound, held and foreign pods are off its free room.

        but: pods whose own nomination is left out: room that kube-scheduler keeps for a pod is no obstacle to it.
        """
        rows = [row for uid, row in self._nominated.items() if uid not in but]
        return self.nodes.snapshot(sorted(rows, key=lambda row: row[:2]))

    def has_nomination(self, uids: Iterable[Uid]) -> bool:
        return not self._nominated.keys().isdisjoint(uids)

    def request(self, record: GangRecord, now: float) -> Gang | None:
        """What is to be asked of the planner for this gang now, if anything."""
        spec = record.spec
        if not isinstance(spec, Spec) or not self.is_idle(record, now):
            return None
        wanted = roster.request(record, spec, self.policy)
        kept = wanted is not None and moving.match(self, record, wanted)
        return None if kept else wanted

    def is_idle(self, record: GangRecord, now: float) -> bool:
        """Nothing is under way for this gang, so its members could be given seats."""
        idle = record.plan is None or record.plan.step is Step.DONE
        return idle and self.ready and record.not_before <= now

    def next_deadline(self) -> float:
        """When the next Tick is due, in the time of `now`; infinity when nothing depends on time."""
        if self.blind:
            return FOREVER
        others = (self.paused, self.moves, self.telling, self.budgets)
        return min(self._wake.next(), *(own.next_due() for own in others))

    def check(self) -> list[str]:
        """Sentences about what must never be true; empty when all is well. For tests, and cheap enough for them."""
        return [
            *books.wrongs(self.roll, self.nodes, self._holding, self.moves.names()),
            *self.roll.check(),
            *self.spares.check(self.roll),
            *self._census.check(self.roll.gangs),
            *self.usage.check(self.roll),
            *self.faults.check(),
        ]

    def census(self) -> Counter[Case]:
        """Gangs by (state, reason)."""
        return Counter(self._counted().cases)

    def demands(self) -> Counter[Demand]:
        """Members of gangs, ended ones too, by what they need."""
        return Counter(self._counted().demands)

    def oldest_wait(self, now: float) -> float:
        """Seconds that the gang that waits longest has waited; 0 when none waits."""
        since = self._counted().oldest()
        return 0.0 if since is None else now - since

    def _counted(self) -> Census:
        self._census.refresh(self.roll.gangs)
        return self._census

    def stands(self, priority: int) -> None:
        """A pod of this priority has its place, or may leave it, from now on. At our highest it gives way to hardly any."""
        if priority < self.highest or self.usage.shares or self.policy.order is Order.LAS:
            self.standing += 1

    def do(self, effects: Iterable[Effect]) -> None:
        """These are to be done, after those before them."""
        self._effects += effects

    def held_on(self, name: str) -> list[Uid]:
        """Pods for which a seat on this node is held."""
        return [uid for uid, node in self._holding.items() if node == name]

    def holds(self) -> int:
        return len(self._holding)

    # ── pods ────────────────────────────────────────────────────────────────────────────────────────────

    def _pod_seen(self, event: ev.PodSeen, now: float) -> None:
        self.lowest = min(self.lowest, event.pod.priority)
        self._note_leaving(event.pod)
        pods.seen(self, event.pod, now)

    def _note_leaving(self, pod: Pod) -> None:
        if pod.deleting and pod.node is not None and not pod.phase.ended:
            self.deleted[pod.uid] = pod
        else:
            self.deleted.pop(pod.uid, None)

    def _pod_gone(self, event: ev.PodGone, now: float) -> None:
        known = self.roll.pod(event.uid)
        if known is not None and known.owner is not None:
            self.paused.hurry(known.owner.uid, now)
        pods.forget(self, event.uid, now)

    def move(self, uid: Uid, key: GangKey) -> None:
        """Make a pod a member of another gang: it turned out not to be one of this."""
        pods.move(self, uid, key)

    def left(self, key: GangKey) -> None:
        """A pod is no longer of this gang; a gang without pods leaves nothing behind."""
        if key in self.roll.gangs:
            self.mark(key, anew=True)
            return
        self._census.touch(key)
        self.suspendable.pop(key, None)
        self.telling.forget(key)
        self.looks += 1
        self._dirty.pop(key, None)
        self._wake.forget(key)
        self.wanting.strike(key)
        for uid in self.spares.take(key, 1, self.roll):
            self.move(uid, key)

    def nominated(self, pod: Pod, *, counts: bool) -> None:
        """Whether kube-scheduler keeps room for this pod of which no hold of ours tells."""
        before = self._nominated.pop(pod.uid, None)
        if counts and pod.nominated and pod.node is None and not pod.phase.ended:
            self._nominated[pod.uid] = (pod.nominated, pod.priority, pod.demand)
        if self._nominated.get(pod.uid) != before:
            self.nodes.generation += 1
            if before is not None:
                self.nodes.grew()

    def unknown(self, uid: Uid) -> None:
        """Nothing of this pod uses room any more."""
        self.nodes.take(uid)
        self.usage.take(uid)
        self.deleted.pop(uid, None)
        self._holding.pop(uid, None)
        if self._nominated.pop(uid, None) is not None:
            self.nodes.generation += 1
            self.nodes.grew()

    # ── seats ───────────────────────────────────────────────────────────────────────────────────────────

    def hold(self, member: Member, hold: Hold, now: float) -> None:
        member.hold = hold
        member.failing_since = None
        pins.note(member, now)
        self._holding[member.pod.uid] = hold.node
        self._nominated.pop(member.pod.uid, None)
        self.occupy(member.pod, hold.node)

    def occupy(self, pod: Pod, node: str) -> None:
        """A pod of ours uses room here, bound or with a seat held."""
        self.nodes.put(pod.uid, node, pod.demand)
        self.usage.put(pod.uid, pod.key.namespace, pod.demand)

    def release(self, member: Member) -> None:
        """The seat is bound, or nobody's any more."""
        member.hold = None
        self._holding.pop(member.pod.uid, None)
        if not member.bound:
            self.nodes.take(member.pod.uid)
            self.usage.take(member.pod.uid)

    # ── outcomes ────────────────────────────────────────────────────────────────────────────────────────

    def _effect_done(self, event: ev.EffectDone, now: float) -> None:
        record = self.roll.gangs.get(event.effect.gang)
        if not self.telling.settled(event.effect) and record is not None:
            outcomes.done(self, record, event.effect, now)
            self.mark(record.key)

    def _effect_failed(self, event: ev.EffectFailed, now: float) -> None:
        self.telling.settled(event.effect)
        record = self.roll.gangs.get(event.effect.gang)
        if record is not None:
            outcomes.failed(self, record, event, now)
            self.mark(record.key)

    # ── time, and who acts ──────────────────────────────────────────────────────────────────────────────

    @property
    def ready(self) -> bool:
        """We know the cluster as it is now, and it is we who act."""
        return self.synced and self.acting and not self.blind

    def wake(self, key: GangKey, at: float) -> None:
        """Look at this gang then at the latest."""
        if at < self._wake.at(key):
            self._wake.set(key, at)

    def _tick(self, _event: ev.Tick, now: float) -> None:
        for key in self._wake.due(now):
            self.mark(key)

    def _settle(self, now: float) -> None:
        if not self.ready:
            return
        if self.freeing:
            freeing.sweep(self, now)
        self.budgets.let_go(self, now)
        self._effects += self.paused.resume(self, now)
        self._effects += moving.carry_on(self, now)
        while self._dirty:
            key = next(iter(self._dirty))
            del self._dirty[key]
            record = self.roll.gangs.get(key)
            if record is not None and record.rests_until > now:
                self.wake(key, record.rests_until)
            elif record is not None:
                self._untold.pop(key, None)
                with faults.guard(self, key, now):
                    self._look_after(record, now)
        untold, self._untold = self._untold, {}
        for record in filter(None, map(self.roll.gangs.get, untold)):
            with faults.guard(self, record.key, now):
                effects, wake = care.tell(self, record, now)
                self._effects += effects
                self.wake(record.key, wake)
        self._effects += self.telling.due(self, now)

    def _look_after(self, record: GangRecord, now: float) -> None:
        if faults.is_refused(record):
            record.spec = None  # what we failed on may be another now
        self._census.touch(record.key)
        record.pulse += 1
        self.looks += 1
        effects, wake = care.look_after(self, record, now)
        record.run, record.reach = None, UNASKED  # its members and what they declare may be others now
        self._effects += effects
        if record.key not in self.roll.gangs or pods.recalled(self, record):
            return
        attained.note(self.suspendable, record, self.owners)
        wanted = self.request(record, now)
        self.wanting.note(record, None if wanted is None else as_waiting(self, record, wanted), now)
        self._wake.set(record.key, wake)
