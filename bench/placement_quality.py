"""How close together the planner places a gang in a fragmented cluster, compared with the optimum of an exact solver.

Lives here: random clusters with gangs that fit them, the fewest domains by mixed-integer programming, and what the
planner takes. Never here: a decision. The seats are those of `planner.decide`.

    python -m bench.placement_quality --cases 300
"""

import json
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Annotated, Any, Final

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from bench import ending
from bench.confidence import interval as half
from bench.controller import GPU
from scheduler.ledger.node_table import NodeTable
from scheduler.model.cluster import DEFAULT_LEVELS, Node, Snapshot
from scheduler.model.decision import Place
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.resources import CPU, PODS, amounts
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid
from scheduler.placement import planner
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.node_candidates import counted

GPUS: Final = 8
"""Of a node, as CORES."""
CORES: Final = 96

BLOCKS: Final = (1, 3)
"""The least and the most, as RACKS of a block and NODES of a rack."""
RACKS: Final = (2, 5)
NODES: Final = (2, 8)

LARGEST: Final = 32
"""The most members of a gang; small ones are more frequent."""

LEVELS: Final = ("rack", "host")
"""At which gangs are packed. The level is preferred, not required."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster with pods in it, and the members that a gang has of each demand."""

    snapshot: Snapshot
    members: tuple[tuple[Demand, int], ...]

    def gang(self, level: str) -> Gang:
        roles = tuple(
            Role(f"role-{number}", demand, tuple(Uid(f"{number}-{member}") for member in range(size)))
            for number, (demand, size) in enumerate(self.members)
        )
        return Gang(GangKey("bench", "gang"), roles, Strategy.PACK, level, required=False)


def some_cluster(chance: random.Random) -> Snapshot:
    """Blocks of racks of nodes. On some nodes, a share that each cluster has of its own, GPUs and CPUs are in use."""
    crowded, table = chance.uniform(0.2, 0.9), NodeTable(DEFAULT_LEVELS)
    for block in range(chance.randint(*BLOCKS)):
        for rack in range(chance.randint(*RACKS)):
            for number in range(chance.randint(*NODES)):
                used = chance.randint(1, GPUS) if chance.random() < crowded else 0
                name = f"b{block}-r{rack}-n{number}"
                labels = dict(
                    zip(
                        (level.label for level in DEFAULT_LEVELS),
                        (name, f"r{rack}", f"b{block}"),
                        strict=True,
                    )
                )
                held = {GPU: used, CPU: 1000 * used * chance.randint(4, 12)}
                has = {GPU: GPUS, CPU: 1000 * CORES, PODS: 110}
                table.seen(Node(name, amounts(has), labels, held=amounts(held)))
    return table.snapshot([])


def some_members(chance: random.Random, roles: int) -> tuple[tuple[Demand, int], ...]:
    """Learners with GPUs. The second role, if any, has few members with fewer GPUs or none, and CPUs of its own."""
    gpus = chance.choice((1, 2, 4, 8))
    size = round(2 * (LARGEST / 2) ** chance.random())
    found = [(_demand(gpus, gpus * chance.randint(2, 12)), size)]
    if roles > 1:
        found.append((_demand(chance.choice((0, 0, 1, 2)), chance.randint(8, 40)), chance.randint(1, 8)))
    return tuple(found)


def _demand(gpus: int, cores: int) -> Demand:
    return Demand(amounts({GPU: gpus, CPU: 1000 * cores, PODS: 1}))


def cases(seed: int, roles: int) -> Iterator[Case]:
    """Clusters with gangs that fit, without end. Gangs that do not fit are drawn again."""
    for number in count():
        chance = random.Random(f"{seed}/{roles}/{number}")
        case = Case(some_cluster(chance), some_members(chance, roles))
        everywhere = np.zeros(len(case.snapshot.names), dtype=np.int64)
        if fewest(case, everywhere) is not None:
            yield case


# ── the optimum ─────────────────────────────────────────────────────────────────────────────────────────


def fewest(case: Case, codes: Codes) -> int | None:
    """The fewest domains that hold the whole gang. None: it does not fit.  codes: int64[n], -1 for a closed node.

    x[b, n] members of demand b on node n, and y[d] = 1 for a domain in use: the sum of y is least. Each domain is
    bounded as a whole besides its nodes, which leaves the solver little to branch on.
    """
    snapshot = case.snapshot
    rooms = [
        np.where(codes >= 0, counted(snapshot.free, snapshot.axis.index, demand), 0.0)
        for demand, _ in case.members
    ]
    if any(room.sum() < size for room, (_, size) in zip(rooms, case.members, strict=True)):
        return None
    domains, domain = np.unique(codes, return_inverse=True)
    nodes, width = len(codes), len(case.members) * len(codes)
    rows = Rows(width + len(domains))
    for batch, (room, (_, size)) in enumerate(zip(rooms, case.members, strict=True)):
        own = batch * nodes + np.arange(nodes)
        rows.add(np.zeros(nodes, dtype=np.int64), own, np.ones(nodes), low=size, high=size)
        within = np.bincount(domain, room, len(domains))
        rows.add(
            np.concatenate((domain, np.arange(len(domains)))),
            np.concatenate((own, width + np.arange(len(domains)))),
            np.concatenate((np.ones(nodes), -np.minimum(within, size))),
        )
    for column in range(len(snapshot.axis)):
        wanted = [dict(demand.requests).get(snapshot.axis.names[column], 0) for demand, _ in case.members]
        if any(wanted):
            node = np.arange(nodes)
            free = np.maximum(snapshot.free[:, column], 0)
            rows.add(
                np.concatenate((np.tile(node, len(wanted)), node)),
                np.concatenate((np.arange(width), width + domain)),
                np.concatenate((np.repeat(np.array(wanted, dtype=float), nodes), -free)),
            )
    most = np.concatenate((*rooms, np.ones(len(domains))))
    cost = np.concatenate((np.zeros(width), np.ones(len(domains))))
    found = milp(cost, integrality=np.ones(len(cost)), bounds=Bounds(0, most), constraints=rows.constraint())
    return round(found.fun) if found.success else None


class Rows:
    """Rows of a sparse linear constraint, collected block by block."""

    def __init__(self, width: int) -> None:
        self._width, self._height = width, 0
        self._parts: list[tuple[Codes, Codes, NDArray[np.float64]]] = []
        self._low: list[NDArray[np.float64]] = []
        self._high: list[NDArray[np.float64]] = []

    def add(
        self,
        row: Codes,
        column: Codes,
        value: NDArray[np.float64],
        *,
        low: float = -np.inf,
        high: float = 0.0,
    ) -> None:
        """Further rows, numbered from 0 in this block, all with the same bounds."""
        height = int(row.max()) + 1
        self._parts.append((row + self._height, column, value))
        self._low.append(np.full(height, low))
        self._high.append(np.full(height, high))
        self._height += height

    def constraint(self) -> LinearConstraint:
        row, column, value = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        matrix = coo_array((value, (row, column)), shape=(self._height, self._width))
        return LinearConstraint(matrix.tocsr(), np.concatenate(self._low), np.concatenate(self._high))


def nearest(case: Case, level: int) -> int:
    """The fewest domains of a level inside one domain of the finest coarser level that holds the whole gang.

    The planner promises this: first a small distance, then few domains.
    """
    columns = case.snapshot.topology.columns
    for coarser in columns[level:]:
        inside = [
            fewest(case, np.where(coarser == group, columns[level], -1))
            for group in np.unique(coarser).tolist()
        ]
        able = [own for own in inside if own is not None]
        if able:
            return min(able)
    found = fewest(case, columns[level])
    if found is None:
        raise ValueError("case: does not fit its cluster; take one from `cases`")
    return found


# ── the planner ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Outcome:
    """One gang at one level. Domains: that the planner took (None: it found no seats), and the two optima."""

    planned: int | None
    fewest: int
    nearest: int


def planned(case: Case, level: str) -> int | None:
    """The domains of this level on which the planner seats the gang."""
    decision = planner.decide(case.snapshot, case.gang(level), Policy(), masks=FeasibilityCache())
    if not isinstance(decision, Place):
        return None
    column = case.snapshot.topology.level(level) or 0
    rows = [case.snapshot.index[node] for node in set(decision.seats.values())]
    return len(set(case.snapshot.topology.columns[column][rows].tolist()))


def outcome(case: Case, level: str) -> Outcome:
    column = case.snapshot.topology.level(level) or 0
    most = fewest(case, case.snapshot.topology.columns[column])
    return Outcome(planned(case, level), most or 0, nearest(case, column))


def outcomes(seed: int, roles: int, size: int) -> dict[str, list[Outcome]]:
    """By level, what came of the first gangs of a seed."""
    own = list(islice(cases(seed, roles), size))
    return {level: [outcome(case, level) for case in own] for level in LEVELS}


@dataclass(frozen=True, slots=True)
class Ratios:
    """Planned domains divided by the optimum.

    wide: the mean over the gangs that no single domain holds.  missed: gangs that fit and got no seats.
    interval: half the 95% interval of the mean.
    """

    gangs: int
    mean: float
    interval: float
    wide: float
    optimal: float
    worst: float
    missed: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[int | None, int]]) -> "Ratios":
        """pairs: planned, and the optimum."""
        own = [(found / best, best) for found, best in pairs if found is not None]
        ratios = [ratio for ratio, _ in own]
        wide = [ratio for ratio, best in own if best > 1]
        return cls(
            len(pairs),
            statistics.fmean(ratios),
            half(ratios),
            statistics.fmean(wide or [1.0]),
            statistics.fmean(ratio <= 1 for ratio in ratios),
            max(ratios),
            len(pairs) - len(own),
        )

    def line(self) -> dict[str, Any]:
        return {name: round(getattr(self, name), 4) for name in self.__slots__}


def main(
    *,
    size: Annotated[int, typer.Option("--cases", min=2, help="Gangs of each number of roles.")] = 300,
    seed: Annotated[int, typer.Option(help="Of the clusters and gangs.")] = 1,
) -> None:
    """Planned domains over the optimum, one line of JSON for each level, number of roles, and optimum."""
    for roles in (1, 2):
        for level, found in outcomes(seed, roles, size).items():
            for name in ("fewest", "nearest"):
                ratios = Ratios.of([(one.planned, getattr(one, name)) for one in found])
                print(
                    json.dumps({"roles": roles, "level": level, "optimum": name, **ratios.line()}), flush=True
                )


if __name__ == "__main__":
    ending.run(lambda: typer.run(main))
