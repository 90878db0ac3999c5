"""The condition `gangwright.io/Seated` on every member of a gang, besides the event on the first of them.

Lives here: which members have an outdated reason, and when they are written: once the reason was stable for a while, in
small batches. Never here: the reason and its text (`conditions`), and the first member, which is written at once. A
member is written again for a new reason, but not for new figures. A gang that has its seats is only written if a member
says that it waits.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from scheduler.ledger import conditions
from scheduler.ledger.gang import GangRecord, Member
from scheduler.ledger.phase import QUORUM_BOUND
from scheduler.ledger.timers import Timers
from scheduler.model.decision import TEXT, Reason
from scheduler.model.durations import doubled
from scheduler.model.effects import SetCondition
from scheduler.model.workload import GangKey, Uid

STOOD: Final = 10.0
"""Seconds for which a reason must be stable: most pass sooner, and each costs one write per member."""

RATE: Final = 50.0
"""Maximum writes per second for all gangs: almost nothing for an API server."""

BATCH: Final = 10
"""Writes per batch."""

LOOKED: Final = 1000
"""Members checked for one batch, worth about a millisecond."""

MATURED: Final = 200
"""Due gangs accepted for one batch, for the same reason."""

UNDER_WAY: Final = 50
"""Maximum writes without an outcome: a slow API server gets fewer writes."""

LONGEST: Final = 300.0
"""Maximum seconds between two attempts for a gang with failing writes. The interval doubles each time."""


Guard: TypeAlias = Callable[[GangKey], AbstractContextManager[None]]
"""An exception inside is the fault of this gang only."""


@dataclass(slots=True)
class Standing:
    """The current reason of a gang, and the state of writing it."""

    why: Reason | None
    """None: nothing to write for the gang, only for members that don't count for it."""
    due: float
    """Its members are not written before this time."""
    failures: int = 0


class MemberConditions:
    """Gangs with members that may have an outdated reason. Costs nothing for all others."""

    def __init__(self) -> None:
        self._standing: dict[GangKey, Standing] = {}
        self._timers = Timers()
        self._ready: dict[GangKey, None] = {}
        """Due gangs, in that order."""
        self._rests_until = float("-inf")
        self._under_way: set[SetCondition] = set()

    def note(self, record: GangRecord, said: conditions.Words, now: float) -> None:
        """This gang was reconciled.  said: its `conditions.words`."""
        key, members = record.key, record.members.values()
        if said is None and all(m.aside is None and m.says is None for m in members):
            self.forget(key)
            return
        why = _why(record, said)
        if why is None and not _lacking(record, None):
            self.forget(key)
            return
        standing = self._standing.get(key)
        if standing is None or standing.why is not why:
            standing = self._standing[key] = Standing(why, now + STOOD)
            self._ready.pop(key, None)
            self._timers.forget(key)
        if key not in self._ready and self._timers.at(key) == float("inf") and _lacking(record, why):
            self._timers.set(key, max(now, standing.due))

    def forget(self, key: GangKey) -> None:
        """Nothing is to be written for this gang."""
        if self._standing.pop(key, None) is not None:
            self._ready.pop(key, None)
            self._timers.forget(key)

    def next_due(self) -> float:
        """When the next write is due, if nothing else happens."""
        if len(self._under_way) >= UNDER_WAY:
            return float("inf")
        return self._rests_until if self._ready else max(self._rests_until, self._timers.next())

    def due(self, gangs: Mapping[GangKey, GangRecord], guard: Guard, now: float) -> Iterator[SetCondition]:
        """The writes that are due now."""
        left = min(BATCH, UNDER_WAY - len(self._under_way))
        if left <= 0 or now < self._rests_until:
            return
        for ripe in islice(self._timers.due(now), MATURED):
            self._ready[ripe] = None
            self._rests_until = now + BATCH / RATE
        looked = 0
        for key in list(islice(self._ready, LOOKED)):
            if not left or looked >= LOOKED:
                return
            record, effects, more = gangs[key], list[SetCondition](), False
            with guard(key):
                effects, more = _effects(record, self._standing[key].why, left)
            if not more:
                del self._ready[key]
            left, looked = left - len(effects), looked + len(record.members)
            self._under_way.update(effects)
            self._rests_until = now + BATCH / RATE
            yield from effects

    def settled(self, effect: SetCondition) -> None:
        """This write has an outcome."""
        self._under_way.discard(effect)

    def failed(self, record: GangRecord, uid: Uid, now: float) -> None:
        """The write to this member failed: retry with increasing delay."""
        standing, member = self._standing.get(record.key), record.members.get(uid)
        if member is not None:
            member.telling = None
        if standing is None:
            return
        standing.due = now + doubled(1.0, standing.failures, LONGEST)
        standing.failures += 1
        self._ready.pop(record.key, None)
        self._timers.set(record.key, standing.due)


def _why(record: GangRecord, said: conditions.Words) -> Reason | None:
    """The reason that its members should have; None if they need no write."""
    if said is not None:
        return said[0]
    return Reason.SEATED if record.state in QUORUM_BOUND and _lacking(record, Reason.SEATED) else None


def _lacking(record: GangRecord, why: Reason | None) -> list[tuple[Member, Reason]]:
    """Members with an outdated reason, and their new one. If the gang has its seats: members that say that it waits. A
    member that doesn't count for its gang has its own reason.
    """
    silent = None if why is Reason.SEATED else why
    live = record.live() if why is not None else []
    lacking = [(m, why) for m in live if why is not None and m.says not in {why, silent}]
    own = [(m, m.aside.reason) for m in record.members.values() if m.aside is not None and m.stays]
    return lacking + [(member, reason) for member, reason in own if member.says != reason]


def _effects(record: GangRecord, why: Reason | None, most: int) -> tuple[list[SetCondition], bool]:
    """Writes for the first members with an outdated reason, and whether there are more of them."""
    lacking, said = _lacking(record, why), None
    effects = []
    for member, reason in lacking[:most]:
        seated = reason is Reason.SEATED
        if member.aside is not None:
            text = member.aside.text
        else:
            text = said = said or (TEXT[reason] if seated else conditions.sentence(record, reason))
        turned = seated or member.says in {None, Reason.SEATED}
        member.telling = reason
        effects.append(SetCondition(record.key, member.pod.uid, member.pod.key, reason, text, seated, turned))
    return effects, len(lacking) > most
