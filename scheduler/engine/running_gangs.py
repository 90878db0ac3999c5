"""When running gangs end: one number per gang in a few columns, of which only the changed ones are computed again.

Lives here: the seated gangs that end by themselves, the numbers of their nodes, and their expected ends. Gangs that were
reconciled are read again. When a namespace's runtimes have taught something, each of its kinds of gangs is estimated once again.
Never here: what an estimate is (ledger.observed_runs), or what a reservation makes of it (placement.reservation).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from scheduler.ledger import Ledger, observed_runs
from scheduler.ledger.gang import GangRecord, Member, Spec
from scheduler.ledger.observed_runs import RunTerms
from scheduler.ledger.phase import SEATED
from scheduler.model.cluster import Matrix
from scheduler.model.queueing import Estimate, Stay
from scheduler.model.resources import Amounts, ResourceAxis
from scheduler.model.workload import GangKey, Pod, Uid
from scheduler.placement.reservation import Running, overrun_at_least


@dataclass(frozen=True, slots=True, eq=False)
class Footing:
    """Where some pods are and what they request, whatever other nodes and resources there are.

    numbers: int64[k], see `NodeTable.rows`.  requests: the distinct ones.  kinds: int64[k], which of them each pod has.
    """

    numbers: NDArray[np.int64]
    requests: tuple[Amounts, ...]
    kinds: NDArray[np.int64]
    uids: tuple[Uid, ...]

    def uses(self, axis: ResourceAxis) -> Matrix:
        """float64[k, r]: without resources that no node has."""
        return np.array([axis.part(own) for own in self.requests]).take(self.kinds, axis=0)


UNKNOWN: Final = Estimate(0.0, 0.0, 0.0)
"""The end of a gang whose columns hold it."""

KINDS_KEPT: Final = 64
"""Kinds of gangs with an estimate, beyond two for each gang. Then those of ended gangs are dropped."""


Seated: TypeAlias = tuple[GangKey, Footing]

Rowed: TypeAlias = dict[int, tuple[Seated, Stay]]
"""By place: a gang with numbers of nodes, and its stay with rows."""


class StaysInRows(Sequence[Stay]):
    """Stays in the rows and columns of one snapshot. Each is made when it is first read.

    rows: int64 by number, see `NodeTable.rows`.  known: those made so far, which later copies share.
    """

    def __init__(
        self, gangs: Sequence[Seated], rows: NDArray[np.int64], axis: ResourceAxis, known: Rowed
    ) -> None:
        self._gangs = gangs
        self._rows = rows
        self._axis = axis
        self._known = known

    def __len__(self) -> int:
        return len(self._gangs)

    @overload
    def __getitem__(self, place: int) -> Stay: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Stay]: ...

    def __getitem__(self, place: int | slice) -> Stay | Sequence[Stay]:
        if isinstance(place, slice):
            return StaysInRows(self._gangs[place], self._rows, self._axis, {})
        gang, known = self._gangs[place], self._known.get(place)
        if known is None or known[0] is not gang:
            known = self._known[place] = gang, in_rows(*gang, self._rows, self._axis)
        return known[1]


def in_rows(key: GangKey, footing: Footing, rows: NDArray[np.int64], axis: ResourceAxis) -> Stay:
    """The stay of these pods, without those whose node is deleted."""
    own, uses, uids = rows[footing.numbers], footing.uses(axis), footing.uids
    if (own < 0).any():
        there = own >= 0
        own, uses = own[there], uses[there]
        uids = tuple(uid for uid, on in zip(uids, there.tolist(), strict=True) if on)
    return Stay(key, own, uses, UNKNOWN, key.namespace, uids=uids)


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedEnds:
    """Seated gangs at one moment, and when each is expected to end.

    places: int64[k], where each is in `stays`.  latest: float64[k], when a max-runtime ends it.
    ends: float64[k, 6], middle, low and high of the end, and the same for a forecast.
    """

    stays: Sequence[Stay]
    places: NDArray[np.int64]
    ends: NDArray[np.float64]
    latest: NDArray[np.float64]

    def each(self) -> Iterator[Stay]:
        """Gang by gang, without gangs of which all nodes are deleted."""
        for place, ends, latest in zip(
            self.places.tolist(), self.ends.tolist(), self.latest.tolist(), strict=True
        ):
            own = self.stays[place]
            if len(own.rows):
                when, likely = Estimate(*ends[:3]), Estimate(*ends[3:])
                yield Stay(own.key, own.rows, own.uses, when, own.namespace, likely, latest, own.uids)


class RunningGangs:
    """The ends of all seated gangs. A place in the columns belongs to one gang, and is used again."""

    def __init__(self, ledger: Ledger, footing: Callable[[Iterable[Pod]], Footing | None]) -> None:
        self._ledger = ledger
        self._footing = footing
        self._numbering = -1
        """The numbering of nodes to which gangs refer."""
        self._clear()

    def _clear(self) -> None:
        self._place: dict[GangKey, int] = {}
        self._gangs: list[Seated] = []
        self._rowed: Rowed = {}
        self._rows, self._axis = self._ledger.nodes.rows, self._ledger.nodes.axis
        """The rows and columns to which `_rowed` refers."""
        self._unused: list[int] = []
        self._numbers = np.zeros(0, dtype=np.int64)
        """By place, the gang's number; -1: the place is unused."""
        self._pods = np.zeros(0, dtype=np.int64)
        self._since = np.zeros(0)
        """By place, when the gang began to run; NaN: it has not yet."""
        self._most = np.zeros(0)
        """By place, its max-runtime."""
        self._kind = np.zeros(0, dtype=np.int64)
        """By place, the number of its terms."""
        self._kinds: dict[RunTerms, int] = {}
        self._estimates = np.zeros((0, 7))
        """By number of the terms: middle, low, high, the least overrun, and the first three for a forecast."""
        self._taught: dict[str, int] = {}
        """By namespace, the version of the runtimes from which its estimates come."""

    # ── questions ───────────────────────────────────────────────────────────────────────────────────────

    def running(self, now: float) -> Running:
        """The ends of all seated gangs that end by themselves, in the order in which they were first seen."""
        places, began = self._now(now)
        own = self._estimates[self._kind[places]]
        return Running(
            middles=began + own[:, 0],
            least=own[:, 3],
            latest=began + self._most[places],
            pods=self._pods[places],
            stays=self._stays(),
            places=places,
        )

    def expected(self, now: float) -> "ExpectedEnds":
        """The same with bounds and forecasts. Any thread may make stays of it."""
        places, began = self._now(now)
        return ExpectedEnds(
            stays=self._stays(),
            places=places,
            ends=began[:, None] + self._estimates[self._kind[places]][:, [0, 1, 2, 4, 5, 6]],
            latest=began + self._most[places],
        )

    def _stays(self) -> StaysInRows:
        return StaysInRows(self._gangs.copy(), self._rows, self._axis, self._rowed)

    def _now(self, now: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The places in use, and when their gangs began: now, if they have not yet."""
        self.follow()
        used = np.flatnonzero(self._numbers >= 0)
        places = used[np.argsort(self._numbers[used], kind="stable")]
        since = self._since[places]
        return places, np.where(np.isnan(since), now, since)

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def follow(self) -> None:
        """Read what has changed since the last call."""
        registry, nodes = self._ledger.registry, self._ledger.nodes
        numbering, changed = nodes.numbering, registry.changed()
        if changed is None or (numbering != self._numbering and self._gangs):
            self._clear()
            changed = registry.gangs
        self._numbering = -1  # if a gang cannot be read, all are read again
        if self._rows is not nodes.rows or self._axis is not nodes.axis:
            self._rows, self._axis, self._rowed = nodes.rows, nodes.axis, {}
        for key in changed:
            self._read(key, registry.gangs.get(key))
        if len(self._kinds) > 2 * len(self._place) + KINDS_KEPT:  # most belong to gangs that have ended
            self._kinds, self._taught = {}, {}
            for key, place in self._place.items():
                self._kind[place] = self._number(observed_runs.terms(self._ledger, registry.gangs[key]))
        self._learn()
        self._numbering = numbering

    def _read(self, key: GangKey, record: GangRecord | None) -> None:
        place = self._place.get(key)
        seated = record is not None and record.state in SEATED
        terms = observed_runs.terms(self._ledger, record) if record is not None and seated else None
        footing = self._footing_of(record, terms) if record is not None and terms is not None else None
        if record is None or terms is None or footing is None:
            if place is not None:
                del self._place[key]
                self._numbers[place] = -1
                self._unused.append(place)
            return
        if place is None:
            place = self._place[key] = self._unused.pop() if self._unused else self._another((key, footing))
        since, most = record.observed.since, terms.most
        self._gangs[place] = key, footing
        self._numbers[place] = record.number
        self._pods[place] = len(footing.numbers)
        self._since[place] = np.nan if since is None else since
        self._most[place] = np.inf if most is None else most
        self._kind[place] = self._number(terms)

    def _footing_of(self, record: GangRecord, terms: RunTerms) -> Footing | None:
        """Its pods. None: none has a node, or it does not end by itself."""
        declares = isinstance(record.spec, Spec) and record.spec.wish.expected_runtime is not None
        if terms.endless and terms.most is None and not declares:
            return None
        return self._footing([m.pod for m in record.live() if _seated(m)])

    def _another(self, gang: Seated) -> int:
        """A new place, for this gang. The columns double when they are full."""
        place = len(self._gangs)
        if place == len(self._numbers):
            more = max(64, place)
            self._numbers = np.append(self._numbers, np.full(more, -1, dtype=np.int64))
            self._pods = np.append(self._pods, np.zeros(more, dtype=np.int64))
            self._kind = np.append(self._kind, np.zeros(more, dtype=np.int64))
            self._since = np.append(self._since, np.zeros(more))
            self._most = np.append(self._most, np.zeros(more))
        self._gangs.append(gang)
        return place

    def _number(self, terms: RunTerms) -> int:
        number = self._kinds.get(terms)
        if number is None:
            number = self._kinds[terms] = len(self._kinds)
            if number >= len(self._estimates):
                self._estimates = np.vstack((self._estimates, np.zeros((max(16, number), 7))))
            self._estimate(terms, number)
            self._taught.setdefault(terms.run[0], self._ledger.runtimes.version(terms.run[0]))
        return number

    def _estimate(self, terms: RunTerms, number: int) -> None:
        found = observed_runs.expected(self._ledger, terms)
        likely = observed_runs.expected(self._ledger, terms, forecast=True)
        ends = found.middle, found.low, found.high
        self._estimates[number] = *ends, overrun_at_least(found), likely.middle, likely.low, likely.high

    def _learn(self) -> None:
        """Estimate again the kinds of gangs about which something was learned."""
        version = self._ledger.runtimes.version
        fresh = {name: now for name, before in self._taught.items() if (now := version(name)) != before}
        if fresh:
            self._taught |= fresh
            for terms, number in self._kinds.items():
                if terms.run[0] in fresh:
                    self._estimate(terms, number)


def _seated(member: Member) -> bool:
    return member.bound or (member.hold is not None and member.hold.until is None)
