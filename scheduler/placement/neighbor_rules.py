"""Where members may go because of the pods around them: inter-pod affinity, anti-affinity and topology spread.

Lives here: the rules of a gang over the nodes of one snapshot, and how each new seat changes what they allow. A rule
compares counts of pods per domain, so its cost grows with nodes and domains, never with pairs of pods.
Never here: resources, or the choice of a node (member_order).
Source: InterPodAffinity and PodTopologySpread of kube-scheduler 1.37.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import NOWHERE, Mask, Matrix, Snapshot
from scheduler.model.demand import Demand
from scheduler.model.neighbors import (
    CLUSTER,
    NODE,
    Counted,
    Namespaces,
    Neighbors,
    PodLabels,
    Repelling,
    Selected,
    TopologySpread,
)
from scheduler.model.resources import Vector
from scheduler.model.workload import Gang, Role
from scheduler.placement.distribution import Codes, Counts
from scheduler.placement.feasibility import FeasibilityCache

ANTI_AFFINITY: Final = "anti-affinity"
AFFINITY: Final = "pod-affinity"
SPREAD: Final = "spread"

Kind: TypeAlias = tuple[Neighbors, PodLabels | None]
"""Members with the same rules that count alike for all rules."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainCount:
    """How many pods count in each domain of a topology key.

    codes: Codes[n], the domain of each node, -1 for none.  start: Counts[d + 1], the placed pods; the last entry stays 0
    and is read for nodes without a domain.  eligible: bool[n], nodes whose pods count.  adds: for each kind, whether a
    member counts.  lone: every node is a domain of its own.
    """

    codes: Codes
    start: Counts
    eligible: Mask
    adds: tuple[bool, ...]
    lone: bool


class Affine(NamedTuple):
    """All terms of required affinity: each of these counts must be above 0.  own: the pod matches its own terms."""

    counts: tuple[int, ...]
    own: bool


@dataclass(frozen=True, slots=True, eq=False)
class Even:
    """A spread constraint over one count.  present: bool[d], domains with an eligible node."""

    count: int
    own: bool
    rule: TopologySpread
    present: Mask


@dataclass(slots=True, eq=False)
class _Rules:
    """The rules of one kind. Numbers are positions in `NeighborRules.counts`."""

    apart: list[int] = field(default_factory=list)
    affine: list[Affine] = field(default_factory=list)
    even: list[Even] = field(default_factory=list)

    @property
    def others(self) -> list[int]:
        """The counts that rules other than anti-affinity read."""
        affine = (number for own in self.affine for number in own.counts)
        return [*affine, *(own.count for own in self.even)]


class NeighborRules:
    """The rules of a gang's members in one cluster.  free: float64[n, r], whose columns of neighbors count placed pods.

    empty: the cluster without its pods. Only rules count then that other pods can never satisfy for a member.
    """

    def __init__(
        self, snapshot: Snapshot, gang: Gang, free: Matrix, masks: FeasibilityCache, *, empty: bool
    ) -> None:
        self.kinds: Final[tuple[Kind, ...]] = tuple(dict.fromkeys(map(kind_of, gang.roles)))
        self._kind_numbers: Final = {kind: number for number, kind in enumerate(self.kinds)}
        self.counts: Final[list[DomainCount]] = []
        self._snapshot, self._free, self._masks, self._empty = snapshot, free, masks, empty
        self._namespaces: Namespaces = snapshot.neighbors.namespaces if snapshot.neighbors is not None else {}
        self._numbers: dict[tuple[object, ...], int] = {}
        carried = tuple({term: None for rules, _ in self.kinds for term in rules.anti_affinity})
        columns = snapshot.neighbors.counted if snapshot.neighbors is not None else ()
        repelling = dict.fromkeys(
            (*map(Repelling, carried), *(c for c in columns if isinstance(c, Repelling)))
        )
        self._rules: Final = [self._rules_of(kind, repelling) for kind in self.kinds]
        self.ordered: Final = any(
            any(self.counts[n].adds) and (n in own.others or not self.counts[n].lone)
            for own in self._rules
            for n in (*own.apart, *own.others)
        )
        """A seat changes where other members may go, beyond its own node. So members are seated one by one."""

    # ── the rules ───────────────────────────────────────────────────────────────────────────────────────

    def _rules_of(self, kind: Kind, repelling: Iterable[Repelling]) -> _Rules:
        rules, _ = kind
        own = _Rules()
        for term in rules.anti_affinity:
            own.apart.append(self._count(Selected((term.pods,)), term.topology_key))
        for what in repelling:
            if self._selects(Selected((what.term.pods,)), kind):
                own.apart.append(self._count(what, what.term.topology_key))
        # Without its pods a cluster can be harder: pods of others satisfy affinity, and fill domains of a spread. So what
        # does not fit there may fit later, and these rules must not count as a lack of nodes.
        affinity = () if self._empty else rules.affinity
        constraints = () if self._empty else rules.spread
        for terms in filter(None, (affinity, *((term,) for term in rules.beside))):
            group = Selected(tuple(term.pods for term in terms))
            counts = tuple(self._count(group, term.topology_key) for term in terms)
            own.affine.append(Affine(counts, self._selects(group, kind)))
        keys = [self._codes(spread.topology_key)[0] for spread in constraints]
        for spread in constraints:
            eligible = self._eligible(spread)
            for codes in keys:  # a node that lacks the label of any constraint counts for none
                eligible = eligible & (codes != NOWHERE)
            number = self._count(Selected((spread.pods,), living=True), spread.topology_key, eligible)
            count = self.counts[number]
            present = np.zeros(len(count.start) - 1, dtype=bool)
            present[count.codes[eligible]] = True
            selected = self._selects(Selected((spread.pods,), living=True), kind)
            own.even.append(Even(number, selected, spread, present))
        return own

    def _selects(self, what: Selected, kind: Kind) -> bool:
        return what.counts(kind[1], (), self._namespaces)

    def _codes(self, key: str) -> tuple[Codes, int]:
        """Codes[n] and the number of domains."""
        nodes = len(self._snapshot.names)
        if key == NODE:
            return np.arange(nodes), nodes
        if key == CLUSTER:
            return np.zeros(nodes, dtype=np.int64), 1
        column = self._snapshot.labels.get(key)
        if column is None:
            return np.full(nodes, NOWHERE, dtype=np.int64), 0
        return column.codes.astype(np.int64), len(column.values)

    def _eligible(self, spread: TopologySpread) -> Mask:
        """bool[n]: nodes that the constraint counts, by its node inclusion policies."""
        demand = Demand(
            selector=spread.selector,
            constraints=(spread.affinity,) if spread.affinity else (),
            tolerations=spread.tolerations or (),
        )
        closed = np.zeros(len(self._snapshot.names), dtype=bool)
        ignored = () if spread.tolerations is not None else ("taint", "cordon")
        for kind, mask in self._masks.of(self._snapshot, demand).obstacles.items():
            if kind not in ignored:
                closed |= mask
        return ~closed

    def _count(self, what: Counted, key: str, eligible: Mask | None = None) -> int:
        """The number of this count, made if it is new."""
        kept = None if eligible is None else eligible.tobytes()
        number = self._numbers.get((what, key, kept))
        if number is not None:
            return number
        codes, domains = self._codes(key)
        everywhere = eligible if eligible is not None else np.ones(len(codes), dtype=bool)
        known = self._snapshot.neighbors
        column = None if known is None else known.index(what)
        placed = np.zeros(len(codes)) if column is None else -self._free[:, column] * everywhere
        start = np.bincount(codes + 1, placed, domains + 1).astype(np.float64)
        start = np.append(start[1:], 0.0)
        adds = tuple(
            what.counts(labels, rules.anti_affinity, self._namespaces) for rules, labels in self.kinds
        )
        lone = not (codes == NOWHERE).any() and len(np.unique(codes)) == len(codes)
        self.counts.append(DomainCount(codes, start, everywhere, adds, lone))
        self._numbers[what, key, kept] = len(self.counts) - 1
        return len(self.counts) - 1

    def number(self, neighbors: Neighbors, labels: PodLabels | None) -> int:
        """The number of the kind of members with these rules and labels."""
        return self._kind_numbers[neighbors, labels]

    # ── what they say ───────────────────────────────────────────────────────────────────────────────────

    def closed(self, kind: int) -> dict[str, Mask]:
        """By rule, bool[n]: the nodes that no later seat of the gang opens for this kind."""
        own, found = self._rules[kind], dict[str, Mask]()
        for number in own.apart:
            count = self.counts[number]
            _add(found, ANTI_AFFINITY, count.start[count.codes] > 0)
        for number in (number for affine in own.affine for number in affine.counts):
            count = self.counts[number]
            _add(found, AFFINITY, count.codes == NOWHERE)
            if not any(count.adds):
                _add(found, AFFINITY, count.start[count.codes] <= 0)
        for even in own.even:
            count = self.counts[even.count]
            _add(found, SPREAD, count.codes == NOWHERE)
            if not any(count.adds):
                _add(found, SPREAD, ~_is_even(even, count.start)[count.codes])
        return {name: mask for name, mask in found.items() if mask.any()}

    def keeps_apart(self, kind: int, other: int) -> bool:
        """Members of these kinds never share a node, because of a topology key with one node in each domain."""
        pairs = ((kind, other), (other, kind))
        return any(
            self.counts[number].lone and self.counts[number].adds[two]
            for one, two in pairs
            for number in self._rules[one].apart
        )

    def words(self) -> tuple[str, ...]:
        """The rules that members of the gang impose on each other, for messages."""
        found: dict[str, None] = {}
        for (rules, _), own in zip(self.kinds, self._rules, strict=True):
            for term in rules.anti_affinity:
                number = self._count(Selected((term.pods,)), term.topology_key)
                if any(self.counts[number].adds):
                    found[_apart_by(term.topology_key)] = None
            if any(any(self.counts[n].adds) for affine in own.affine for n in affine.counts):
                for term in rules.affinity:
                    found[f"members in one {named(term.topology_key)} by pod affinity"] = None
            if rules.beside:
                found["members on one node by a claim that they share"] = None
            for even in own.even:
                skew = even.rule.max_skew
                found[f"spread over {named(even.rule.topology_key)} with maxSkew {skew}"] = None
        return tuple(found)

    def at(self, rows: NDArray[np.int64]) -> "NeighborState":
        """The state of these nodes before any new seat."""
        return NeighborState(self, self._rules, rows)


class NeighborState:
    """The counts after some seats.  places: positions in `rows`, int64[m]."""

    def __init__(self, rules: NeighborRules, own: Sequence[_Rules], rows: NDArray[np.int64]) -> None:
        self._own: Final = own
        self._wide: Final = [[n for n in each.apart if not rules.counts[n].lone] for each in own]
        """Anti-affinity beyond one node. What is closed node by node is known from `closed` and `keeps_apart`."""
        self._codes: Final = [count.codes[rows] for count in rules.counts]
        self._eligible: Final = [count.eligible[rows] for count in rules.counts]
        self._adds: Final = [count.adds for count in rules.counts]
        self._counts: Final = [count.start.copy() for count in rules.counts]
        self._places: Final = len(rows)

    def open(self, kind: int) -> Mask:
        """bool[m]: the places where the rules allow a member of this kind now."""
        own, codes, counts = self._own[kind], self._codes, self._counts
        out = np.ones(self._places, dtype=bool)
        for number in self._wide[kind]:
            if counts[number].any():
                out &= counts[number][codes[number]] <= 0
        for affine in own.affine:
            first = affine.own and not any(counts[number].any() for number in affine.counts)
            for number in affine.counts:
                out &= (codes[number] != NOWHERE) if first else counts[number][codes[number]] > 0
        for even in own.even:
            out &= _is_even(even, counts[even.count])[codes[even.count]]
        return out

    def seat(self, kind: int, place: int, sign: float = 1.0) -> None:
        """Count a member of this kind at this place; with sign -1 no longer."""
        for number, adds in enumerate(self._adds):
            if adds[kind] and self._eligible[number][place] and self._codes[number][place] != NOWHERE:
                self._counts[number][self._codes[number][place]] += sign


def kind_of(role: Role) -> Kind:
    return role.neighbors, role.labels


def rules_of(
    snapshot: Snapshot, gang: Gang, free: Matrix, masks: FeasibilityCache, *, empty: bool = False
) -> NeighborRules | None:
    """The rules of this gang. None: none of its members has any, and no placed pod keeps them away."""
    if snapshot.neighbors is None and not any(role.neighbors for role in gang.roles):
        return None
    return NeighborRules(snapshot, gang, free, masks, empty=empty)


def preference(snapshot: Snapshot, gang: Gang, free: Matrix) -> Vector | None:
    """float64[n]: by the preferred terms of all members, how much more each node is preferred. None: no terms."""
    known, out = snapshot.neighbors, np.zeros(len(snapshot.names))
    terms = [own for role in gang.roles for own in role.neighbors.preferred]
    if known is None or not terms:
        return None
    for own in dict.fromkeys(terms):
        column, codes = known.index(Selected((own.term.pods,))), snapshot.labels.get(own.term.topology_key)
        if column is not None and codes is not None:
            counts = np.bincount(codes.codes + 1, -free[:, column], len(codes.values) + 1)
            counts[0] = 0.0
            out += own.weight * counts[codes.codes + 1]
    return out


def _apart_by(topology_key: str) -> str:
    if topology_key == CLUSTER:
        return "a ReadWriteOncePod claim is for one pod"
    return f"at most one member per {named(topology_key)} by anti-affinity"


def named(topology_key: str) -> str:
    """The topology key in a message."""
    return {NODE: "node", "kubernetes.io/hostname": "host"}.get(topology_key, topology_key)


def _is_even(even: Even, counts: Counts) -> Mask:
    """bool[d + 1]: the domains that one more pod does not make too full. The last entry, for no domain, is False."""
    here = counts[:-1]
    few = int(even.present.sum()) < even.rule.min_domains
    least = 0.0 if few or not even.present.any() else here[even.present].min()
    return np.append(here + even.own - least <= even.rule.max_skew, False)


def _add(found: dict[str, Mask], name: str, mask: Mask) -> None:
    found[name] = found[name] | mask if name in found else mask
