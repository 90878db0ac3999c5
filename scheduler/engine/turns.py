"""Turns by attained service: who has had more than a gang that waits, and has had his turn.

Lives here: the order `las` among those who run. Never here: who may be asked to leave for other reasons (rights), or what
a band of service is (placement.queue).
Why kept gang by gang: everybody who waits asks about everybody who runs, after every change of room.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.ledger import Ledger, attained
from scheduler.ledger.records import GangRecord
from scheduler.model.workload import GangKey, GiveWay
from scheduler.placement import queue

Service = tuple[int, float]
"""The band of what a gang has had, and its birth: by both it goes before others, or after them."""


@dataclass(frozen=True, slots=True)
class _Had:
    """What of a gang's service changes with time alone, for as long as nothing about it changes.

    runs: devices of each pod that runs, and since when.  began: when the last pod of it got its place; None: nobody knows.
    rate: device-seconds a second of all with a seat.
    """

    made_for: tuple[int, int]
    born: float
    before: float
    runs: tuple[tuple[float, float], ...]
    began: float | None
    rate: float

    def so_far(self, now: float) -> float:
        return self.before + sum(devices * max(0.0, now - since) for devices, since in self.runs)


class Turns:
    """Whose turn is over, of those who would be suspended."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: dict[GangKey, _Had] = {}

    @property
    def _quantum(self) -> float:
        return self._ledger.policy.las_quantum

    def over_for(self, record: GangRecord, now: float) -> set[GangKey]:
        """Gangs that have had at least a band more than this one, or the last band and are younger; and their turn."""
        own = self._service(record, now)
        return {
            key
            for key, other in self._ledger.suspendable.items()
            if self._goes_first(own, other, now) and self._leaves_as_one(other)
        }

    def _service(self, record: GangRecord, now: float) -> Service:
        owners = self._ledger.owners
        had = attained.so_far(record, owners, now)
        return queue.band(had, self._quantum), attained.born(record, owners)

    def _goes_first(self, own: Service, other: GangRecord, now: float) -> bool:
        had = self._had(other)
        if had.began is None or now - had.began < self._quantum:
            return False
        return queue.goes_first(own, (queue.band(had.so_far(now), self._quantum), had.born))

    def _leaves_as_one(self, other: GangRecord) -> bool:
        suspends = attained.way(other, self._ledger.owners) is GiveWay.SUSPEND
        return suspends and attained.leaves_alone(other, self._ledger.roll)

    def _had(self, record: GangRecord) -> _Had:
        made_for = (record.number, record.pulse)
        had = self._kept.get(record.key)
        if had is None or had.made_for != made_for:
            if len(self._kept) > 2 * len(self._ledger.suspendable):
                self._kept = {k: own for k, own in self._kept.items() if k in self._ledger.suspendable}
            had = self._kept[record.key] = self._worked_out(record, made_for)
        return had

    def _worked_out(self, record: GangRecord, made_for: tuple[int, int]) -> _Had:
        owners = self._ledger.owners
        seated = [m.pod for m in record.live() if attained.has_seat(m)]
        since = [pod.bound_at for pod in seated if pod.bound_at is not None]
        return _Had(
            made_for,
            born=attained.born(record, owners),
            before=attained.before(record, owners),
            runs=attained.running(record),
            began=max(since) if since and len(since) == len(seated) else None,
            rate=sum(attained.devices(pod.demand) for pod in seated),
        )

    def next_for(self, record: GangRecord, now: float) -> Iterator[float]:
        """When each gang that can be suspended has had its turn, and more than this one."""
        band, born = self._service(record, now)
        above = min(band + 1, queue.LAST_BAND)
        enough = queue.begins_at(above, self._quantum)
        for other in self._ledger.suspendable.values():
            had = self._had(other)
            if queue.goes_first((band, born), (above, had.born)):
                lacks = enough - had.so_far(now)
                began = now if had.began is None else had.began
                yield max(began + self._quantum, now + lacks / had.rate if had.rate else float("inf"))
