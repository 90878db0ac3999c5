"""Explanations of waiting gangs beyond the reason: how near one is to a fit, which pods that would cost, when it starts.

Lives here: the questions, their answers, and how wrong earlier forecasts were. A question holds an immutable snapshot,
so a thread answers it, never an extender call. Never here: a preemption rule. A named pod would be preempted if the
gang may preempt (see `preemption_policy`). So pods within their namespace's guarantee are never named.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from scheduler.engine.cycle import PlanningCycle
from scheduler.engine.planning import Question
from scheduler.engine.preemption_candidates import EXPLAIN, PreemptionCandidates
from scheduler.ledger import Ledger, observed_runs
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.neighbor_table import FORECAST_COLUMNS
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Shortfall
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import FREELY, Terms, Unit
from scheduler.model.queueing import Estimate, Stay, Usage, Waiting
from scheduler.model.workload import GangKey
from scheduler.placement import planner, victim_selection
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.forecast import forecast

BUDGET: Final = 4_000
"""Placement questions that one forecast may ask: about a second on a cluster of a thousand nodes."""

LONGEST: Final = 200
"""Gangs of the queue with a forecast. Behind so many gangs, too much happens before a gang's turn."""


@dataclass(frozen=True, slots=True)
class Found:
    """nearest: see `planner.nearest`.  victims: the cheapest pods of lower priority that would free enough for the quorum."""

    nearest: tuple[Shortfall, ...] = ()
    victims: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The gang's own question, all pods of lower priority, and the limits on all of them together."""

    seat: Question
    lower: tuple[Unit, ...]
    terms: Terms = FREELY

    def answer(self, policy: Policy) -> Found:
        """The answer. Any thread may compute it."""
        snapshot, masks = self.seat.snapshot, FeasibilityCache()
        gang, allowed = self.seat.gang, self.seat.allowed
        nearest = planner.nearest(snapshot, gang, policy, allowed, masks)
        if not self.lower or self.seat.told is not None:
            return Found(nearest)
        freed = victim_selection.choose(snapshot, gang, self.lower, policy, allowed, masks, self.terms)
        return Found(nearest, freed.victims if freed is not None else ())


def prepare(ledger: Ledger, asking: PlanningCycle, key: GangKey, now: float) -> Iterator[None]:
    """What `inquire` takes long for, in portions."""
    record = ledger.registry.gangs.get(key)
    if record is not None and record.wanted is not None:
        behind = asking.preemption.behind(record, record.wanted)
        if behind is not None:
            yield from asking.candidates.gather(behind, now, record.wanted, EXPLAIN)


def inquire(ledger: Ledger, asking: PlanningCycle, key: GangKey, now: float) -> Explanation | None:
    """The question about this gang. None: the gang requests nothing now, so there is nothing to explain."""
    record = ledger.registry.gangs.get(key)
    gang = record.wanted if record is not None else None
    if record is None or gang is None or not gang.quorum or not ledger.ready:
        return None
    seat = asking.about(record, gang, now)
    behind = asking.preemption.behind(record, gang)
    if behind is None:
        return Explanation(seat, ())
    units = asking.candidates.units(behind, now, gang, EXPLAIN)
    units = asking.candidates.widened(seat.snapshot, units)
    return Explanation(seat, *asking.preemption.terms(units, gang))


@dataclass(frozen=True, slots=True, eq=False)
class ForecastRequest:
    """The cluster and its queue at one moment."""

    snapshot: Snapshot
    waiting: tuple[Waiting, ...]
    leaving: tuple[Stay, ...]
    running: Callable[[], Iterable[Stay]]
    """The stays after those that leave. Of many gangs they take long, so the thread of the forecast makes them."""
    policy: Policy
    now: float
    usages: Mapping[str, Usage] = field(default_factory=dict)
    """The usage of namespaces with a ceiling."""

    @property
    def stays(self) -> tuple[Stay, ...]:
        """All pods that run."""
        return (*self.leaving, *self.running())


def outlook(
    ledger: Ledger, running: PreemptionCandidates, snapshot: Snapshot, now: float, longest: int = LONGEST
) -> ForecastRequest:
    """The input of a forecast. longest: the number of gangs of the queue at most."""
    waiting = [
        replace(
            own,
            runs=observed_runs.expect(ledger, record),
            likely=observed_runs.expect(ledger, record, forecast=True),
        )
        for own, record in islice(_hopeful(ledger), longest)
    ]
    leaving = running.leaving(now)
    stays: Callable[[], Iterable[Stay]] = running.expected(now).each
    snapshot = ledger.neighbors.picture(snapshot, [own.gang for own in waiting], FORECAST_COLUMNS)
    if snapshot.neighbors is not None:  # how pods count as neighbors is in the ledger
        leaving, stays = running.widened(snapshot, (*leaving, *stays())), tuple
    limited = {
        name: usage
        for name in ledger.share_usage.shares
        if (usage := ledger.share_usage.below(name)) is not None
    }
    return ForecastRequest(snapshot, tuple(waiting), leaving, stays, ledger.policy, now, limited)


def _hopeful(ledger: Ledger) -> Iterator[tuple[Waiting, GangRecord]]:
    """The queue without gangs that waiting cannot help. They would fill the part that is examined."""
    for own in ledger.pending.waiting():
        record = ledger.registry.gangs[own.gang.key]
        if not record.waits_in_vain:
            yield own, record


def foresee(seen: ForecastRequest, budget: int = BUDGET) -> Mapping[GangKey, Estimate]:
    """Start times, in seconds since the epoch. Gangs that were not reached within the budget are missing."""
    return forecast(
        seen.snapshot, seen.waiting, seen.stays, seen.policy, seen.now, budget, usages=seen.usages
    )


class Forecasts:
    """The last forecast, and the first forecast for each gang."""

    def __init__(self) -> None:
        self.starts: Mapping[GangKey, Estimate] = {}
        self._first: dict[GangKey, tuple[float, float]] = {}

    def took(self, starts: Mapping[GangKey, Estimate], now: float) -> None:
        """Store a new forecast, computed from a snapshot of `now`."""
        self.starts = starts
        for key, start in starts.items():
            self._first.setdefault(key, (now, start.middle))

    def started(self, gangs: Sequence[tuple[GangKey, float]]) -> list[float]:
        """The ratio of the first forecast wait to the real wait, for gangs that started. gangs: with start times."""
        found = [
            (told - at) / (when - at)
            for key, when in gangs
            for at, told in [self._first.pop(key, (when, when))]
            if when > at
        ]
        return [max(0.0, ratio) for ratio in found]

    def forget(self, kept: Container[GangKey]) -> None:
        """Drop the first forecasts of all other gangs."""
        self._first = {key: told for key, told in self._first.items() if key in kept}
