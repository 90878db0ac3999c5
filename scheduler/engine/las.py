"""Turns by attained service: which running gangs have had more than a waiting one, and have had their turn.

Lives here: the order `las` among running gangs. Never here: other preemption rules (preemption_policy), or the bands of
service (placement.order). Why sorted once per moment: in a pass, every waiting gang needs the running gangs whose turn
is over.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.ledger import Ledger, attained_service
from scheduler.ledger.gang import GangRecord
from scheduler.model.workload import GangKey
from scheduler.placement import order
from scheduler.placement.order import Service

Moment = tuple[float, int, float]
"""Now, the ledger's counter of looks, and the quantum. The sorted list is valid until one of them changes."""


@dataclass(frozen=True, slots=True)
class _Had:
    """A gang's attained service as a function of time, valid until the gang changes.

    runs: the devices of each running pod, and since when it runs.  began: when its last pod was bound; None: unknown.
    rate: device-seconds per second of all members with a seat.
    """

    made_for: tuple[int, int]
    born: float
    before: float
    runs: tuple[tuple[float, float], ...]
    began: float | None
    rate: float

    def so_far(self, now: float) -> float:
        return self.before + sum(devices * max(0.0, now - since) for devices, since in self.runs)

    def gives_way_at(self, enough: float, now: float, quantum: float) -> float:
        """When it will have had `enough` device-seconds and its turn. Infinity: that time is not after now."""
        lacks = enough - self.so_far(now)
        began = now if self.began is None else self.began
        time = max(began + quantum, now + lacks / self.rate if self.rate else float("inf"))
        return time if time > now else float("inf")


class Over:
    """Gangs whose turn is over, sorted once for all queries."""

    def __init__(self, known: Iterable[tuple[Service, GangKey]]) -> None:
        services = sorted(known)
        keys = [key for _, key in services]
        begins = [bisect_left(services, ((band,),)) for band in range(1, order.LAST_BAND + 1)]
        self._above = [frozenset(keys[begin:]) for begin in begins]
        self._last = keys[begins[-1] :]
        self._born = [born for (_, born), _ in services[begins[-1] :]]

    def after(self, own: Service) -> frozenset[GangKey]:
        """The gangs that `own` ranks ahead of."""
        band, born = own
        if band < order.LAST_BAND:
            return self._above[band]
        return frozenset(self._last[bisect_right(self._born, born) :])


class LasTurns:
    """Which of the gangs that can be suspended have had their turn."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: dict[GangKey, _Had] = {}
        self._over: tuple[Moment, Over] | None = None

    def over_for(self, record: GangRecord, now: float) -> frozenset[GangKey]:
        """Gangs that have had their turn, and at least a band more than this one, or are younger in the last band."""
        moment = (now, self._ledger.looks, self._quantum)
        if self._over is None or self._over[0] != moment:
            self._over = moment, Over(self._turn_is_over(now))
        return self._over[1].after(self._service(record, now))

    def next_for(self, record: GangRecord, now: float) -> float:
        """When the first gang that can be suspended will have had its turn, and more than this one. Infinity: never."""
        own = self._service(record, now)
        above = min(own[0] + 1, order.LAST_BAND)
        enough = order.begins_at(above, self._quantum)
        others = map(self._had, self._ledger.suspendable.values())
        theirs = (had for had in others if order.goes_first(own, (above, had.born)))
        return min((had.gives_way_at(enough, now, self._quantum) for had in theirs), default=float("inf"))

    @property
    def _quantum(self) -> float:
        return self._ledger.policy.las_quantum

    def _service(self, record: GangRecord, now: float) -> Service:
        had = self._had(record)
        return order.band(had.so_far(now), self._quantum), had.born

    def _turn_is_over(self, now: float) -> Iterator[tuple[Service, GangKey]]:
        ledger = self._ledger
        for key, other in ledger.suspendable.items():
            began = self._had(other).began
            over = began is not None and now - began >= self._quantum
            if over and attained_service.leaves_as_one(other, ledger.owners, ledger.registry):
                yield self._service(other, now), key

    def _had(self, record: GangRecord) -> _Had:
        made_for = (record.number, record.pulse)
        had = self._kept.get(record.key)
        if had is None or had.made_for != made_for:
            if len(self._kept) > 2 * len(self._ledger.registry.gangs):
                self._kept = {k: own for k, own in self._kept.items() if k in self._ledger.registry.gangs}
            had = self._kept[record.key] = self._worked_out(record, made_for)
        return had

    def _worked_out(self, record: GangRecord, made_for: tuple[int, int]) -> _Had:
        owners = self._ledger.owners
        seated = [m.pod for m in record.live() if m.has_seat]
        since = [pod.bound_at for pod in seated if pod.bound_at is not None]
        return _Had(
            made_for,
            born=attained_service.born(record, owners),
            before=attained_service.before(record, owners),
            runs=attained_service.running(record),
            began=max(since) if since and len(since) == len(seated) else None,
            rate=sum(attained_service.devices(pod.demand) for pod in seated),
        )
