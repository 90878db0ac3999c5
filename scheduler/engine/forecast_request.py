"""When the gangs that wait will start: the question, its answer, and how wrong earlier answers were.

The question is a picture that does not change, so it is answered on a thread, never on the road of a verb.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from scheduler.engine.preemption_candidates import PreemptionCandidates
from scheduler.ledger import Ledger, observed_runs
from scheduler.ledger.gang import GangRecord
from scheduler.model.cluster import Snapshot
from scheduler.model.policy import Policy
from scheduler.model.queueing import Estimate, Stay, Usage, Waiting
from scheduler.model.workload import GangKey
from scheduler.placement.forecast import forecast

BUDGET: Final = 4_000
"""Questions where a gang could sit that one forecast may ask: about a second on a cluster of a thousand nodes."""

LONGEST: Final = 200
"""Gangs of the queue that are forecast: behind so many gangs too much happens until a gang's turn."""


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
