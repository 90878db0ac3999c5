"""Counts of events and states for metrics, and faults for the service to log.

The core only counts; the service reads. A gang is noted when it changes and counted when a count is read. So a reader
that polls every other second pays only for the gangs that changed meanwhile.
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
from scheduler.model.resources import is_shown
from scheduler.model.workload import GangKey


@dataclass(slots=True)
class Counters:
    """Counters only grow. Observations are removed by the reader."""

    pins_broken: Counter[str] = field(default_factory=Counter)
    """By cause."""
    reseats: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    """By reason."""
    victims: Counter[str] = field(default_factory=Counter)
    """Preempted pods, by kind of unit."""
    lost: float = 0.0
    """Device-seconds of work that they had not saved."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Preemptions that the API server rejected, by kind of failure."""
    waits: list[float] = field(default_factory=list)
    """Seconds from the completion of a gang's quorum to its bind."""
    placements: list[Quality] = field(default_factory=list)
    starts: list[tuple[GangKey, float]] = field(default_factory=list)
    """Gangs with a bound quorum, and the time of its bind."""

    def preempted(self, preempt: Preempt) -> None:
        """These victims were preempted."""
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
    """Since when it waits; None if it does not."""
    wants: tuple[tuple[Demand, int], ...] = ()
    """Requests of its members without a seat, while its whole quorum waits."""


@dataclass(slots=True)
class GangCounts:
    """Every gang, counted once."""

    cases: Counter[Case] = field(default_factory=Counter)
    demands: Counter[Demand] = field(default_factory=Counter)
    """Members by demand."""
    wanted: dict[str, Counter[str]] = field(default_factory=dict)
    """By namespace and resource, the requests of waiting gangs."""
    _entries: dict[GangKey, Entry] = field(default_factory=dict)
    _since: dict[GangKey, float] = field(default_factory=dict)

    def oldest(self) -> float | None:
        """Since when the longest-waiting gang waits; None if none waits."""
        return min(self._since.values(), default=None)

    def refresh(self, gangs: Mapping[GangKey, GangRecord], keys: Iterable[GangKey]) -> None:
        """Count these again: they may have changed, appeared or disappeared."""
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
            if is_shown(name):
                total[name] += amount * count
    return total


def _demands(members: Collection[Member]) -> tuple[tuple[Demand, int], ...]:
    """Each demand with its number of members. Most members share one object, and identity is faster to test than
    equality.
    """
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
    """A step failed on this gang, or on an object without a known gang (None)."""

    gang: GangKey | None
    error: Exception
    again: bool
    """An earlier step failed on this gang recently."""


@dataclass(slots=True)
class Faults:
    """Failures for the service to log."""

    total: int = 0
    _untold: list[Fault] = field(default_factory=list)

    def note(self, fault: Fault) -> None:
        """A step failed."""
        self.total += 1
        self._untold.append(fault)

    def drain(self) -> list[Fault]:
        """The failures since the last call."""
        untold, self._untold = self._untold, []
        return untold
