"""What happened and what is, counted for metrics; and what failed, for the service to log.

The core does not measure: it counts, and the service reads. A gang is only noted when it is touched, and counted when its
count is asked for: a reader that asks every other second pays for the gangs that changed meanwhile.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.ledger import conditions
from scheduler.ledger.gang import GangRecord, Member
from scheduler.ledger.phase import State
from scheduler.model.decision import Quality
from scheduler.model.demand import Demand
from scheduler.model.preemption_units import Preempt
from scheduler.model.workload import GangKey


@dataclass(slots=True)
class Counters:
    """Counters only ever grow; observations are taken away by the reader."""

    pins_broken: Counter[str] = field(default_factory=Counter)
    """By cause."""
    reseats: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    """By reason."""
    victims: Counter[str] = field(default_factory=Counter)
    """Pods that were asked to give way, by kind of unit."""
    lost: float = 0.0
    """Device-seconds of work that they had not saved."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Requests to leave that the API server refused, by kind of failure."""
    waits: list[float] = field(default_factory=list)
    """Seconds from a gang's quorum being there to its being bound."""
    placements: list[Quality] = field(default_factory=list)
    starts: list[tuple[GangKey, float]] = field(default_factory=list)
    """Gangs whose quorum is bound, with when."""

    def preempted(self, preempt: Preempt) -> None:
        """These were asked to leave."""
        for unit in preempt.victims:
            self.victims[unit.kind.name.lower()] += len(unit.uids)
            self.lost += unit.lost

    def drain(self) -> tuple[list[float], list[Quality]]:
        taken = (self.waits, self.placements)
        self.waits, self.placements = [], []
        return taken


Case = tuple[str, str]
"""State and reason."""


class Entry(NamedTuple):
    """One gang as it was counted."""

    case: Case
    demands: tuple[tuple[Demand, int], ...]
    since: float | None
    """Since when it waits; None: it does not."""
    wants: tuple[tuple[Demand, int], ...] = ()
    """What its members ask for that have no seat, while its whole quorum waits."""


@dataclass(slots=True)
class GangCounts:
    """Every gang counted once."""

    cases: Counter[Case] = field(default_factory=Counter)
    demands: Counter[Demand] = field(default_factory=Counter)
    """Members by what they need."""
    wanted: dict[str, Counter[str]] = field(default_factory=dict)
    """By namespace and resource, what gangs want that wait."""
    _entries: dict[GangKey, Entry] = field(default_factory=dict)
    _since: dict[GangKey, float] = field(default_factory=dict)

    def oldest(self) -> float | None:
        """Since when the gang waits that waits longest; None: none waits."""
        return min(self._since.values(), default=None)

    def refresh(self, gangs: Mapping[GangKey, GangRecord], keys: Iterable[GangKey]) -> None:
        """Count these again: they may have changed, have come or be gone."""
        for key in keys:
            record = gangs.get(key)
            own = entry(record) if record is not None else None
            if own != self._entries.get(key):
                self._strike(key)
                if own is not None:
                    self._enter(key, own)

    def _enter(self, key: GangKey, own: Entry) -> None:
        self._entries[key] = own
        self.cases[own.case] += 1
        for demand, count in own.demands:
            self.demands[demand] += count
        if own.since is not None:
            self._since[key] = own.since
        if own.wants:
            self.wanted.setdefault(key.namespace, Counter()).update(_amounts(own.wants))

    def _strike(self, key: GangKey) -> None:
        own = self._entries.pop(key, None)
        if own is None:
            return
        self.cases[own.case] -= 1
        if not self.cases[own.case]:
            del self.cases[own.case]
        for demand, count in own.demands:
            self.demands[demand] -= count
            if not self.demands[demand]:
                del self.demands[demand]
        self._since.pop(key, None)
        if own.wants:
            left = self.wanted[key.namespace]
            left.subtract(_amounts(own.wants))
            self.wanted[key.namespace] = left = +left
            if not left:
                del self.wanted[key.namespace]


def entry(record: GangRecord) -> Entry:
    case = (record.state, conditions.reason(record).value)
    wants = _demands(record.plannable()) if record.state is State.WAITING else ()
    return Entry(case, _demands(record.members.values()), record.waiting_since, wants)


def _amounts(wants: Iterable[tuple[Demand, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for demand, count in wants:
        for name, amount in demand.requests:
            total[name] += amount * count
    return total


def _demands(members: Collection[Member]) -> tuple[tuple[Demand, int], ...]:
    """Each demand with its members. Most share one, and that two are one is told faster than that they are equal."""
    if len(members) == 1:
        (member,) = members
        return ((member.pod.demand, 1),)
    counts: dict[int, int] = {}
    known: dict[int, Demand] = {}
    for member in members:
        demand = member.pod.demand
        counts[id(demand)] = counts.get(id(demand), 0) + 1
        known[id(demand)] = demand
    return tuple((known[number], count) for number, count in counts.items())


@dataclass(frozen=True, slots=True)
class Fault:
    """A step failed on this gang; None: on an object of no gang that is known."""

    gang: GangKey | None
    error: Exception
    again: bool
    """One failed on this gang not long before."""


@dataclass(slots=True)
class Faults:
    """What went wrong, for the service to log."""

    total: int = 0
    _untold: list[Fault] = field(default_factory=list)

    def note(self, fault: Fault) -> None:
        """A step failed."""
        self.total += 1
        self._untold.append(fault)

    def drain(self) -> list[Fault]:
        """What was noted since."""
        untold, self._untold = self._untold, []
        return untold
