"""How long gangs run: declarations of their owners, corrected by observations.

Lives here: the bounded memory of ended gangs, and the estimates from it.
Never here: the end time of a running gang (the ledger adds its start).

Three sources, the best first:
- a declaration of a reliable owner, times the observed ratios of actual to declared runtimes of that owner;
- runtimes of gangs of the same namespace, kind and size class, then of the same namespace and kind;
- the default, with a wide spread.
The memory may be lost at a restart. Then every owner is trusted again, and estimates are as wide as at first.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

from scheduler.model.queueing import UNKNOWN, Estimate

KEPT: Final = 64
"""Ended gangs remembered per owner and size: enough for a tenth quantile, few enough to follow a change."""

OWNERS: Final = 4096
"""Remembered classes of size and of declared span, of all owners. The least recently updated one is forgotten first."""

ENOUGH: Final = 4
"""Ended gangs of one class from which they are trusted over those of all classes."""

LIE: Final = 3.0
"""A gang that runs longer than this many times its declaration was not declared honestly. Declarations are commonly off
by a factor of two either way (the prior below), and a margin above that rules out convictions by chance."""

PRIOR: Final = tuple(2.0 ** (step / 10) for step in range(-10, 11))
"""Ratios of actual to declared before any observation: evenly spread, as a logarithm, over half … twice. They weigh as
much as twenty ended gangs: with fewer, chance moves the middle more than it teaches. Their middle is 1, because
reservations use the middle. With a shorter one, every second honest gang would overrun, and meanwhile others would slip
past the first waiting gang."""

LEANING: Final = tuple(1 / (0.5 + 1.5 * (part + 0.5) / 21) for part in range(21))
"""The same for forecasts: declared over actual, spread evenly over half … twice. If owners are off by that much without
bias, and gangs that take longer than t are as 1 / t (the law of TAIL), this is how long gangs with equal declarations
run. More often they are short ones that declared too much than long ones that declared too little. Its middle is 0.8.
On Philly's most crowded virtual cluster, gangs that declared more than a day took 0.6 … 0.8 of it, in the geometric
mean."""

REACH: Final = 2
"""Classes of declared span on either side that are included, one after the other, until as many gangs are known as
PRIOR weighs: declarations from a third to three times as long. On a virtual cluster of Philly, the median error of
forecasts was 20% with one class on either side, 17% with two, 20% with three."""

FEW: Final = 4.0
"""One ended gang implies that the next takes between a quarter of and four times as long, until more have ended."""

Key: TypeAlias = tuple[str, str, int]
"""Namespace, kind of owner, class of size or span; class ALL for all of them."""

Run: TypeAlias = tuple[str, str, int, float | None, float]
"""A query: namespace, kind of owner, members, declared seconds or None, default seconds if nothing is known."""

ALL: Final = -10_000
"""Below every class: no positive number of seconds has a class under -2,150."""


class _Memory:
    """The last KEPT positive numbers of each of at most OWNERS keys."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, deque[float]] = OrderedDict()

    def add(self, key: Key, value: float) -> None:
        self._kept.setdefault(key, deque(maxlen=KEPT)).append(value)
        self._kept.move_to_end(key)
        if len(self._kept) > OWNERS:
            self._kept.popitem(last=False)

    def of(self, key: Key) -> tuple[float, ...]:
        return tuple(self._kept.get(key, ()))

    def alike(self, namespace: str, kind: str, group: int) -> tuple[float, ...]:
        """Those of this class, or of all classes if they are not ENOUGH."""
        own = self.of((namespace, kind, group))
        return own if len(own) >= ENOUGH else self.of((namespace, kind, ALL))

    def near(self, namespace: str, kind: str, group: int) -> tuple[float, ...]:
        """Those of this class and of neighboring ones, as many as balance PRIOR. If they are not ENOUGH, those of all
        classes.
        """
        own: tuple[float, ...] = ()
        for away in range(REACH + 1):
            for one in sorted({group - away, group + away}):
                own += self.of((namespace, kind, one))
            if len(own) >= len(PRIOR):
                break
        return own if len(own) >= ENOUGH else self.of((namespace, kind, ALL))

    def __len__(self) -> int:
        return len(self._kept)


def size_class(size: int) -> int:
    """Sizes between two powers of two are one class: 1, 2–3, 4–7 …"""
    return max(size, 1).bit_length()


def span_class(declared: float) -> int:
    """Declared runtimes within a factor of √2 are one class.

    Why classes: if short gangs are many and long ones few, a long declaration is more often too long than too short,
    and the queue waits mostly for the long ones. Why narrow ones: if gangs take equally long, those that declared less
    start sooner. In one class with those that declared more, their ratios would be observed first, and would be wrong
    for the others, which still wait.
    """
    return math.floor(2 * math.log2(declared))


def quantiles(values: Iterable[float]) -> Estimate:
    """The middle of positive values and the bounds of four out of five, interpolated between logarithms."""
    logs = sorted(math.log(value) for value in values)
    low, middle, high = (math.exp(_at(logs, part)) for part in (0.1, 0.5, 0.9))
    return Estimate(middle, low, high)


def _at(ordered: list[float], part: float) -> float:
    """The quantile between two adjacent values, as in numpy's `linear`."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(slots=True, eq=False)
class Reach:
    """Maximum seconds of all gangs of one run. None: must be recomputed, because more is known now.

    All of them share it. So a caller that asks about thousands has it computed once, until something is learned.
    """

    high: float | None = None


class Runtimes:
    """The memory of how long gangs run."""

    def __init__(self) -> None:
        self._told: dict[Run, Estimate] = {}
        self._worth: dict[Key, tuple[Estimate, Estimate]] = {}
        """Ratios of actual to declared, by PRIOR and by LEANING, shared by thousands of one class of declared span."""
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._lessons = self._forgotten = 0
        """How many lessons were learned, and the latest lesson of all namespaces that are forgotten."""
        self._reaches: dict[Run, Reach] = {}
        self._ended: Final = _Memory()
        self._ratios: Final = _Memory()

    def __len__(self) -> int:
        """Keys remembered."""
        return len(self._ended) + len(self._ratios)

    def version(self, namespace: str) -> int:
        """Grows when something was learned about this namespace's gangs, which only its own gangs cause. For a
        forgotten namespace, when others are forgotten.
        """
        return self._versions.get(namespace, self._forgotten)

    def _learned(self, namespace: str) -> None:
        self._lessons += 1
        self._versions[namespace] = self._lessons
        self._versions.move_to_end(namespace)
        if len(self._versions) > OWNERS:
            _, self._forgotten = self._versions.popitem(last=False)
        self._forget(reach for run, reach in self._reaches.items() if run[0] == namespace)
        self._told = {run: told for run, told in self._told.items() if run[0] != namespace}
        self._worth = {key: worth for key, worth in self._worth.items() if key[0] != namespace}

    def ended(self, namespace: str, kind: str, size: int, declared: float | None, seconds: float) -> None:
        """A gang with this many members, created by an owner of this kind, ended after this many seconds.

        declared: its declared runtime in seconds, if any.  Spans that are not positive are ignored.
        """
        if not 0 < seconds < math.inf:
            return
        self._learned(namespace)
        for group in (size_class(size), ALL):
            self._ended.add((namespace, kind, group), seconds)
        if _valid(declared):
            for group in (span_class(declared), ALL):
                self._ratios.add((namespace, kind, group), seconds / declared)

    def overran(self, namespace: str, kind: str, declared: float, seconds: float) -> None:
        """A gang has run for this many seconds already. Its overrun counts before its end."""
        self._learned(namespace)
        for group in (span_class(declared), ALL):
            self._ratios.add((namespace, kind, group), seconds / declared)

    def expect(
        self, namespace: str, kind: str, size: int, declared: float | None, default: float
    ) -> Estimate:
        """How many seconds such a gang will run.  default: seconds if nothing is known."""
        return self.of((namespace, kind, size, declared, default))

    def of(self, asked: Run) -> Estimate:
        """The same for a tuple, which a frequent caller can keep."""
        told = self._told.get(asked)
        if told is None:
            if len(self._told) >= OWNERS:
                self._told.clear()
            told = self._told[asked] = self._expect(*asked)
        return told

    def reach(self, asked: Run) -> Reach:
        """Maximum seconds of such a gang, to be kept by the caller. It is reset when it becomes obsolete."""
        found = self._reaches.get(asked)
        if found is None:
            if len(self._reaches) >= OWNERS:
                self._forget(self._reaches.values())
                self._reaches.clear()
            found = self._reaches[asked] = Reach()
        if found.high is None:
            found.high = self.of(asked).high
        return found

    @staticmethod
    def _forget(reaches: Iterable[Reach]) -> None:
        for reach in reaches:
            reach.high = None

    def likely(self, asked: Run) -> Estimate:
        """How many seconds such a gang will run, for a forecast. Reservations and backfill don't use it."""
        namespace, kind, _, declared, _ = asked
        if _valid(declared) and not self.lies(namespace, kind):
            return _times(self._ratios_of(namespace, kind, span_class(declared))[1], declared)
        return self.of(asked)

    def _expect(
        self, namespace: str, kind: str, size: int, declared: float | None, default: float
    ) -> Estimate:
        if _valid(declared) and not self.lies(namespace, kind):
            return _times(self._ratios_of(namespace, kind, span_class(declared))[0], declared)
        seen = self._ended.alike(namespace, kind, size_class(size))
        return _times(Estimate(1.0, 1 / UNKNOWN, UNKNOWN), default) if not seen else _observed(seen)

    def _ratios_of(self, namespace: str, kind: str, group: int) -> tuple[Estimate, Estimate]:
        key = (namespace, kind, group)
        worth = self._worth.get(key)
        if worth is None:
            if len(self._worth) >= OWNERS:
                self._worth.clear()
            seen = self._ratios.near(*key)
            worth = self._worth[key] = (quantiles((*PRIOR, *seen)), quantiles((*LEANING, *seen)))
        return worth

    def lies(self, namespace: str, kind: str) -> bool:
        """One of the owner's recent gangs overran its declaration so far that its declarations are not trusted."""
        return any(ratio > LIE for ratio in self._ratios.of((namespace, kind, ALL)))


def _valid(declared: float | None) -> TypeGuard[float]:
    return declared is not None and 0 < declared < math.inf


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.middle * factor, estimate.low * factor, estimate.high * factor)


def _observed(seen: tuple[float, ...]) -> Estimate:
    """Quantiles of the observations, plus one FEW times as long as the median and one a FEW-th of it."""
    middle = quantiles(seen).middle
    return quantiles((*seen, middle / FEW, middle * FEW))
