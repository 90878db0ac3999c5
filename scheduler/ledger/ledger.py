"""The event loop of the core: `take(events, now)` records facts, `settle(now)` returns the effects, `handle` does both.

Events are recorded one after the other. Then each affected gang is reconciled once, however many of its members changed
(`reconcile.reconcile`). `now` is any monotonic clock, in seconds.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from scheduler.ledger import (
    fault_isolation,
    handlers,
    membership,
    migration,
    preemption,
    reconcile,
    suspended_jobs,
)
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.pending_queue import Turns
from scheduler.ledger.reconcile import as_waiting
from scheduler.model import events as ev
from scheduler.model.effects import Effect, SetCondition
from scheduler.model.policy import Policy
from scheduler.model.workload import Gang, Pod

FOREVER = float("inf")

GANG: Final = 8
"""What is done once for a gang takes as long as this number of its members."""

FEW: Final = 32
"""Gangs that one step may reconcile, in some milliseconds."""


class Ledger(Cache):
    """What is bound, held and waiting. Pure: no clock, no I/O; equal events give equal effects."""

    def __init__(self, policy: Policy, turns: Callable[[Cache], Turns] | None = None) -> None:
        super().__init__(policy, turns)
        self._take: Mapping[type, Callable[[Any, float], None]] = {
            ev.NodeSeen: partial(handlers.node_seen, self),
            ev.NodeGone: partial(handlers.node_gone, self),
            ev.PodSeen: self._pod_seen,
            ev.PodGone: self._pod_gone,
            ev.GroupSeen: partial(handlers.group_seen, self),
            ev.GroupGone: partial(handlers.group_gone, self),
            ev.OwnerSeen: partial(handlers.owner_seen, self),
            ev.OwnerGone: partial(handlers.owner_gone, self),
            ev.QuotaSeen: partial(handlers.quota_seen, self),
            ev.QuotaGone: partial(handlers.quota_gone, self),
            ev.BudgetSeen: partial(handlers.budget_seen, self),
            ev.BudgetGone: partial(handlers.budget_gone, self),
            ev.NamespaceSeen: partial(handlers.namespace_seen, self),
            ev.Asked: partial(handlers.asked, self),
            ev.Scored: partial(handlers.scored, self),
            ev.Decided: partial(handlers.decided, self),
            ev.VictimsChosen: partial(handlers.victims_chosen, self),
            ev.MoveFound: partial(migration.begin, self),
            ev.PolicyChanged: partial(handlers.policy_changed, self),
            ev.EffectDone: self._effect_done,
            ev.EffectFailed: self._effect_failed,
            ev.Synced: partial(handlers.synced, self),
            ev.TookOver: partial(handlers.took_over, self),
            ev.LostSight: partial(handlers.lost_sight, self),
            ev.SawAgain: partial(handlers.saw_again, self),
            ev.Tick: self._tick,
        }

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, events: Iterable[ev.Event], now: float) -> list[Effect]:
        """Record what happened and return the resulting effects, in order."""
        self.take(events, now)
        return self.settle(now)

    def take(self, events: Iterable[ev.Event], now: float) -> None:
        """Record what happened, which is quick. The next `settle` returns the effects."""
        for event in events:
            try:
                self._take[type(event)](event, now)
            except Exception as error:  # noqa: BLE001 - the other events count
                fault_isolation.broke(self, fault_isolation.gang_of(self, event), error, now)

    def settle(self, now: float, most: float = FOREVER) -> list[Effect]:
        """Reconcile once every gang that was affected, and report gangs with a new verdict. Returns the effects in
        order. First, all gangs catch up, for example after a takeover.

        most: stop after gangs with so many members. While the ledger is `unsettled`, call it again.
        """
        left = self._catch_up(now, most)
        if self.catch_ups:
            return []
        self._settle(now, left)
        if most < FOREVER and len(self._uncounted) > FEW:
            self._counted(2 * FEW)  # or the next scrape of metrics would count all gangs at once
        effects, self._effects = self._effects, []
        return effects

    @property
    def unsettled(self) -> bool:
        """The last `settle` stopped before its end. Gangs that were marked since belong to the next one."""
        return bool(self.catch_ups) or (self.ready and self._rest > 0)

    @property
    def reviewing(self) -> bool:
        """So many gangs are left of the last `settle` that the rest of it takes long."""
        return self.unsettled and self._rest > FEW

    @property
    def marked(self) -> int:
        """How many gangs wait to be reconciled."""
        return len(self._dirty)

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, record: GangRecord, now: float) -> Gang | None:
        """The current request to the planner for this gang, if any."""
        return migration.request(self, record, now)

    def next_deadline(self) -> float:
        """When the next Tick is due, on the clock of `now`. Infinity if nothing depends on time."""
        if self.blind:
            return FOREVER
        times = [self._wake.next(), self.jobs_to_resume.next_due(), self.migrations.next_due()]
        times.append(self.member_conditions.next_due())
        times += [self.budgets.next_due()] if self.budgets.eased else []
        return min(times)

    # ── pods ────────────────────────────────────────────────────────────────────────────────────────────

    def _pod_seen(self, event: ev.PodSeen, now: float) -> None:
        self.lowest = min(self.lowest, event.pod.priority)
        self._note_leaving(event.pod)
        membership.seen(self, event.pod, now)

    def _note_leaving(self, pod: Pod) -> None:
        if pod.deleting and pod.node is not None and not pod.phase.ended:
            self.deleted[pod.uid] = pod
        else:
            self.deleted.pop(pod.uid, None)

    def _pod_gone(self, event: ev.PodGone, now: float) -> None:
        known = self.registry.pod(event.uid)
        if known is not None and known.owner is not None:
            self.jobs_to_resume.hurry(known.owner.uid, now)
        membership.forget(self, event.uid, now)

    # ── outcomes ────────────────────────────────────────────────────────────────────────────────────────

    def _effect_done(self, event: ev.EffectDone, now: float) -> None:
        record = self.registry.gangs.get(event.effect.gang)
        if isinstance(event.effect, SetCondition):
            self.member_conditions.settled(event.effect)  # its gang is not affected
        elif record is not None:
            handlers.effect_done(self, record, event.effect, now)
            self.mark(record.key)

    def _effect_failed(self, event: ev.EffectFailed, now: float) -> None:
        if isinstance(event.effect, SetCondition):
            self.member_conditions.settled(event.effect)
        record = self.registry.gangs.get(event.effect.gang)
        if record is not None:
            handlers.effect_failed(self, record, event, now)
            self.mark(record.key)

    # ── time ───────────────────────────────────────────────────────────────────────────────────────────

    def _tick(self, _event: ev.Tick, now: float) -> None:
        for key in self._wake.due(now):
            self.mark(key)

    def _catch_up(self, now: float, most: float) -> float:
        """Let gangs with so many members catch up. Returns the members that are left to reconcile."""
        while self.catch_ups and most > 0:
            try:
                most -= GANG + self.catch_ups[0].send(now)
            except StopIteration:
                self.catch_ups.popleft()
            except Exception as error:  # noqa: BLE001 - gangs that have caught up count
                self.catch_ups.popleft()
                fault_isolation.broke(self, None, error, now)
        return most

    def _settle(self, now: float, most: float) -> None:
        if not self.ready:
            return
        left = most
        if self.freeing or self.migrations.waited_for:
            self._sweep(now)
        if self.budgets.eased:
            lowest = self.budgets.let_go(self.pods(), now, waits=len(self.pending) > 0)
            if lowest is not None:
                self.note_victim(lowest)
        self._effects += self.jobs_to_resume.resume(self.owners, self.registry, now)
        self._effects += migration.carry_on(self, now)
        # What goes on does not look at gangs that were marked meanwhile, or events could make it last without an end.
        turns = self._rest if self._rest and most < FOREVER else FOREVER
        while self._dirty and left > 0 and turns > 0:
            turns -= 1
            key, _ = self._dirty.popitem(last=False)
            record = self.registry.gangs.get(key)
            left -= 0 if record is None else GANG + len(record.members)
            if record is not None and record.rests_until > now:
                self.wake(key, record.rests_until)
            elif record is not None:
                self._untold.pop(key, None)
                with fault_isolation.Guard(self, key, now):
                    self._look_after(record, now)
        self._rest = int(min(turns, len(self._dirty)))
        untold, self._untold = self._untold, {}
        for record in filter(None, map(self.registry.gangs.get, untold)):
            with fault_isolation.Guard(self, record.key, now):
                effects, wake = reconcile.tell(self, record, now)
                self._effects += effects
                self.wake(record.key, wake)
        guard = partial(fault_isolation.Guard, self, now=now)
        self._effects += self.member_conditions.due(self.registry.gangs, guard, now)

    def _sweep(self, now: float) -> None:
        """Abandon a plan if its gang is deleted or has another plan. Reconcile the others when capacity was freed, as
        well as gangs that wait for their seats.
        """
        for key, plan in list(self.freeing.items()):
            record = self.registry.gangs.get(key)
            if record is None or record.plan is not plan:
                with fault_isolation.Guard(self, key, now):
                    preemption.give_up(self, key, plan, now)
        if self.freeing_seen_at != self.nodes.room_version:
            self.freeing_seen_at = self.nodes.room_version
            for key in (*self.freeing, *self.migrations.take_waiting()):
                self.mark(key)

    def _look_after(self, record: GangRecord, now: float) -> None:
        if fault_isolation.is_refused(record):
            record.spec = None  # its state may have changed since the internal error
        self._uncounted.add(record.key)
        self.registry.note_change(record.key)
        record.pulse += 1
        self.looks += 1
        effects, wake = reconcile.reconcile(self, record, now)
        self._effects += effects
        if record.key not in self.registry.gangs:
            return
        suspended_jobs.note_suspendable(self.suspendable, record, self.owners)
        wanted = self.request(record, now)
        self.pending.note(record, None if wanted is None else as_waiting(self, record, wanted), now)
        self._wake.set(record.key, wake)
