"""What a person asks about the gangs that wait, beyond the reason: how near one is, which pods room would cost, and when they
start.

Lives here: the questions, their answers, and how wrong earlier forecasts were. A question is a picture that does not
change, so a thread answers it, never the path of a verb. Never here: a right. A pod that is named would be asked to leave
if the gang might ask (`preemption_policy` says whether it may). So no pod is named for what its namespace uses within its
guarantee.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from scheduler.engine.cycle import PlanningCycle
from scheduler.engine.planning import Question
from scheduler.engine.preemption_candidates import PreemptionCandidates
from scheduler.ledger import Ledger, observed_runs
from scheduler.ledger.gang import GangRecord
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
"""Questions where a gang could sit that one forecast may ask: about a second on a cluster of a thousand nodes."""

LONGEST: Final = 200
"""Gangs of the queue that are forecast: behind so many gangs too much happens until a gang's turn."""


@dataclass(frozen=True, slots=True)
class Found:
    """nearest: see `planner.nearest`.  victims: the cheapest of lower priority whose leaving would seat the quorum."""

    nearest: tuple[Shortfall, ...] = ()
    victims: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The gang's own question, all pods of lower priority, and what all of them together may give."""

    seat: Question
    lower: tuple[Unit, ...]
    terms: Terms = FREELY

    def answer(self, policy: Policy) -> Found:
        """Any thread may ask."""
        snapshot, masks = self.seat.snapshot, FeasibilityCache()
        gang, allowed = self.seat.gang, self.seat.allowed
        nearest = planner.nearest(snapshot, gang, policy, allowed, masks)
        if not self.lower or self.seat.told is not None:
            return Found(nearest)
        freed = victim_selection.choose(snapshot, gang, self.lower, policy, allowed, masks, self.terms)
        return Found(nearest, freed.victims if freed is not None else ())


def inquire(ledger: Ledger, asking: PlanningCycle, key: GangKey, now: float) -> Explanation | None:
    """None: the gang asks for nothing now, so there is nothing to be near to."""
    record = ledger.registry.gangs.get(key)
    gang = record.wanted if record is not None else None
    if record is None or gang is None or not gang.quorum or not ledger.ready:
        return None
    seat = asking.about(record, gang, now)
    behind = asking.preemption.behind(record, gang)
    if behind is None:
        return Explanation(seat, ())
    units = asking.candidates.units(seat.snapshot, behind, now)
    return Explanation(seat, *asking.preemption.terms(units, gang))


@dataclass(frozen=True, slots=True, eq=False)
class ForecastRequest:
    """The cluster and its queue at one moment."""

    snapshot: Snapshot
    waiting: tuple[Waiting, ...]
    stays: tuple[Stay, ...]
    policy: Policy
    now: float
    usages: Mapping[str, Usage] = field(default_factory=dict)
    """Of namespaces that have a ceiling."""


def outlook(
    ledger: Ledger, running: PreemptionCandidates, snapshot: Snapshot, now: float, longest: int = LONGEST
) -> ForecastRequest:
    """What a forecast is made from; of the queue so many gangs at most."""
    waiting = [
        replace(
            own,
            runs=observed_runs.expect(ledger, record),
            likely=observed_runs.expect(ledger, record, forecast=True),
        )
        for own, record in islice(_hopeful(ledger), longest)
    ]
    running_on = (_likely(ledger, stay, now) for stay in running.stays(snapshot, now))
    stays = (*running.leaving(snapshot, now), *running_on)
    limited = {
        name: usage
        for name in ledger.share_usage.shares
        if (usage := ledger.share_usage.below(name)) is not None
    }
    return ForecastRequest(snapshot, tuple(waiting), stays, ledger.policy, now, limited)


def _hopeful(ledger: Ledger) -> Iterator[tuple[Waiting, GangRecord]]:
    """The queue without gangs that no waiting helps: they would fill the part of it that is looked at."""
    for own in ledger.pending.waiting():
        record = ledger.registry.gangs[own.gang.key]
        if not record.waits_in_vain:
            yield own, record


def _likely(ledger: Ledger, stay: Stay, now: float) -> Stay:
    record = ledger.registry.gangs[stay.key]
    began = now if record.observed.since is None else record.observed.since
    return replace(stay, likely=observed_runs.expect(ledger, record, forecast=True).after(began))


def foresee(seen: ForecastRequest, budget: int = BUDGET) -> Mapping[GangKey, Estimate]:
    """Start times, in seconds since the epoch; who was not reached within the budget is missing."""
    return forecast(
        seen.snapshot, seen.waiting, seen.stays, seen.policy, seen.now, budget, usages=seen.usages
    )


class Forecasts:
    """The last forecast, and what each gang was first told."""

    def __init__(self) -> None:
        self.starts: Mapping[GangKey, Estimate] = {}
        self._first: dict[GangKey, tuple[float, float]] = {}

    def took(self, starts: Mapping[GangKey, Estimate], now: float) -> None:
        """A new forecast, made from a picture of `now`."""
        self.starts = starts
        for key, start in starts.items():
            self._first.setdefault(key, (now, start.middle))

    def started(self, gangs: Sequence[tuple[GangKey, float]]) -> list[float]:
        """Gangs that started, with when: how long each was first told to wait for each second that it did."""
        found = [
            (told - at) / (when - at)
            for key, when in gangs
            for at, told in [self._first.pop(key, (when, when))]
            if when > at
        ]
        return [max(0.0, ratio) for ratio in found]

    def forget(self, kept: Container[GangKey]) -> None:
        """What others were told is not remembered."""
        self._first = {key: told for key, told in self._first.items() if key in kept}
