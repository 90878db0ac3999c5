"""An accountant who knows nothing of masks, sorting or levels of water: he counts node by node, in whole numbers.

He works on the nodes themselves and what is used on them, never on a Snapshot's arrays.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scheduler.model.cluster import DEFAULT_LEVELS, Node
from scheduler.model.decision import Place
from scheduler.model.demand import Demand
from scheduler.model.workload import Gang, Role

LEVELS = {level.name: number for number, level in enumerate(DEFAULT_LEVELS)}


def domain(node: Node, level: str) -> tuple[str, ...] | None:
    """The node's whole path down to this level, or None without its label."""
    column = LEVELS[level]
    path = tuple(node.labels.get(up.label, "") for up in DEFAULT_LEVELS[column:])
    return path if DEFAULT_LEVELS[column].label in node.labels else None


def may_hold(node: Node, demand: Demand, *, cordons: bool = True) -> bool:
    """Selector, taints and cordon; the tests' demands have no affinity."""
    matches = all(node.labels.get(key) == value for key, value in demand.selector)
    return matches and not demand.untolerated(node.taints) and (node.schedulable or not cordons)


def room(free: Mapping[str, int], demand: Demand) -> int:
    """How many of this demand so much free room holds."""
    most = min((max(free.get(name, 0), 0) // wanted for name, wanted in demand.requests), default=10**6)
    return min(most, 1) if demand.ports else most


@dataclass(frozen=True)
class Books:
    """The nodes, and what others use on each."""

    nodes: Sequence[Node]
    used: Mapping[str, Mapping[str, int]]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def free(self, node: Node, *, empty: bool = False) -> dict[str, int]:
        used = {} if empty else self.used.get(node.name, {})
        return {name: total - used.get(name, 0) for name, total in node.capacity}

    def holds(self, gang: Gang, demand: Demand, *, empty: bool = False) -> dict[str, int]:
        """By node, how many of this demand it holds for this gang."""
        return {
            node.name: room(self.free(node, empty=empty), demand)
            for node in self.nodes
            if may_hold(node, demand, cordons=not empty) and (empty or node.name not in gang.barred)
        }

    def by_domain(self, counts: Mapping[str, int], level: str) -> dict[tuple[str, ...], int]:
        """Sums over the nodes of each domain; nodes in none are left out."""
        out: Counter[tuple[str, ...]] = Counter()
        for name, count in counts.items():
            path = domain(self.node(name), level)
            if path is not None:
                out[path] += count
        return dict(out)

    def within(
        self, counts: Mapping[tuple[str, ...], int], level: str, coarser: str
    ) -> list[dict[tuple[str, ...], int]]:
        """The domains of a level with their counts, apart by the domain of a coarser level that they lie in."""
        shorter = LEVELS[coarser] - LEVELS[level]
        out: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for path, count in counts.items():
            out.setdefault(path[shorter:], {})[path] = count
        return list(out.values())

    def audit(self, gang: Gang, place: Place, allowed: Mapping[str, frozenset[str]]) -> None:
        """Nobody sits where he may not, nothing is given twice, and the quorum sits whole."""
        demands = {uid: role.demand for role in gang.roles for uid in role.quorum + role.surplus}
        quorum = {uid for role in gang.roles for uid in role.quorum}
        assert quorum <= place.seats.keys() <= demands.keys()
        assert set(place.unseated) == demands.keys() - place.seats.keys()
        for node in self.nodes:
            here = [uid for uid, name in place.seats.items() if name == node.name]
            taken: Counter[str] = Counter()
            ports: list[int] = []
            for uid in here:
                assert may_hold(node, demands[uid])
                assert node.name not in gang.barred
                assert node.name in allowed.get(uid, {node.name})
                taken.update(dict(demands[uid].requests))
                ports += [port.port for port in demands[uid].ports]
            free = self.free(node)
            assert all(free.get(name, 0) >= count for name, count in taken.items())
            assert len(set(ports)) == len(ports)

    def shares(self, place: Place, level: str, uids: set[str]) -> dict[tuple[str, ...], int]:
        return self.by_domain(Counter(name for uid, name in place.seats.items() if uid in uids), level)


def even_shares_exist(caps: Sequence[int], members: int) -> bool:
    """Some sharing out over all of these domains differs by at most one: every one is looked at."""
    return any(
        sum(shares) == members and max(shares) - min(shares) <= 1
        for shares in product(*(range(min(cap, members) + 1) for cap in caps))
    )


def one_by_one(caps: Sequence[int], members: int) -> list[int]:
    """The shares when each member in turn goes to the lowest domain with room, sorted."""
    shares = [0] * len(caps)
    for _ in range(members):
        shares[min((d for d in range(len(caps)) if shares[d] < caps[d]), key=lambda d: shares[d])] += 1
    return sorted(shares)


def fewest(rooms: Sequence[int], members: int) -> int:
    """The fewest of these that together hold the members: every subset is looked at."""
    sizes = [
        sum(chosen)
        for chosen in product((0, 1), repeat=len(rooms))
        if sum(room for room, taken in zip(rooms, chosen, strict=True) if taken) >= members
    ]
    return min(sizes)


def seats_exist(books: Books, gang: Gang, roles: Sequence[Role]) -> bool:
    """Some seating of these roles' quorum within the required domain, or anywhere, exists: every one is looked at."""
    members = [role.demand for role in roles for _ in role.quorum]
    domains = {domain(node, gang.level) for node in books.nodes} - {None}
    places = [
        [node for node in books.nodes if not gang.required or domain(node, gang.level) == path]
        for path in (domains if gang.required else [None])
    ]
    return any(_backtrack(books, gang, members, nodes, {}) for nodes in places)


def _backtrack(books, gang, members, nodes, taken) -> bool:
    if not members:
        return True
    demand, rest = members[0], members[1:]
    for node in nodes:
        free = books.free(node)
        used = taken.get(node.name, Counter())
        left = {name: count - used[name] for name, count in free.items()}
        if node.name in gang.barred or not may_hold(node, demand) or not room(left, demand):
            continue
        if _backtrack(books, gang, rest, nodes, {**taken, node.name: used + Counter(dict(demand.requests))}):
            return True
    return False
