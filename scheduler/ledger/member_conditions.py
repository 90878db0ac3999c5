"""What every member of a gang says of it: the condition `gangwright.io/Seated`, beside the event on the first of them.

Lives here: which members lack the reason that holds now, and when they are written: once it has stood for a while, a
few at a time. Never here: the reason and its text (`conditions`), and the first member, which
is told at once. A member is written again for another reason, not for other numbers. A gang that has its seats is
written only where a member says that it waits.
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
"""Seconds that a reason must have stood: most pass sooner, and each costs a write for every member."""

RATE: Final = 50.0
"""Writes a second at most, of all gangs together: next to nothing for an API server."""

BATCH: Final = 10
"""Writes at a time."""

LOOKED: Final = 1000
"""Members that are looked at for a batch: a millisecond's worth."""

MATURED: Final = 200
"""Gangs whose time has come that are taken in for a batch, for the same reason."""

UNDER_WAY: Final = 50
"""Writes without an outcome at most: a slow API server is asked more slowly."""

LONGEST: Final = 300.0
"""Seconds between two tries for a gang of which writes fail, at most; each takes twice as long as the last."""


Guard: TypeAlias = Callable[[GangKey], AbstractContextManager[None]]
"""What fails inside is the fault of this gang alone."""


@dataclass(slots=True)
class Standing:
    """Why a gang is where it is, and how writing that went."""

    why: Reason | None
    """None: the gang has nothing to say, and members that do not count for it have."""
    due: float
    """Its members are not written before."""
    failures: int = 0


class MemberConditions:
    """The gangs of which a member may lack the present reason. Costs nothing for those of which none does."""

    def __init__(self) -> None:
        self._standing: dict[GangKey, Standing] = {}
        self._timers = Timers()
        self._ready: dict[GangKey, None] = {}
        """Gangs whose time has come, in that order."""
        self._rests_until = float("-inf")
        self._under_way: set[SetCondition] = set()

    def note(self, record: GangRecord, said: conditions.Words, now: float) -> None:
        """This gang was looked at.  said: its `conditions.words`."""
        key, why = record.key, _why(record, said)
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
        """Nothing is to be told of this gang."""
        if self._standing.pop(key, None) is not None:
            self._ready.pop(key, None)
            self._timers.forget(key)

    def next_due(self) -> float:
        """When there is something to write, if nothing else happens."""
        if len(self._under_way) >= UNDER_WAY:
            return float("inf")
        return self._rests_until if self._ready else max(self._rests_until, self._timers.next())

    def due(self, gangs: Mapping[GangKey, GangRecord], guard: Guard, now: float) -> Iterator[SetCondition]:
        """What is to be written now."""
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
        """This has an outcome."""
        self._under_way.discard(effect)

    def failed(self, record: GangRecord, uid: Uid, now: float) -> None:
        """This member was not written: it is tried again, later and later."""
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
    """What its members are to say; None: they need say nothing, or nothing else."""
    if said is not None:
        return said[0]
    return Reason.SEATED if record.state in QUORUM_BOUND and _lacking(record, Reason.SEATED) else None


def _lacking(record: GangRecord, why: Reason | None) -> list[tuple[Member, Reason]]:
    """Members that say something else, with what they are to say. Of a gang that has its seats: those that say that it
    waits. A member that does not count for its gang says its own reason.
    """
    silent = None if why is Reason.SEATED else why
    live = record.live() if why is not None else []
    lacking = [(m, why) for m in live if why is not None and m.says not in {why, silent}]
    own = [(m, m.aside.reason) for m in record.members.values() if m.aside is not None and m.stays]
    return lacking + [(member, reason) for member, reason in own if member.says != reason]


def _effects(record: GangRecord, why: Reason | None, most: int) -> tuple[list[SetCondition], bool]:
    """For the first so many members that lack the reason, and whether there are more of them."""
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
