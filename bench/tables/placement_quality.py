"""How close together gangs are placed in fragmented clusters, over the optimum: `bench.placement_quality`."""

from collections.abc import Mapping, Sequence
from typing import Final

from bench.placement_quality import LEVELS, Outcome, Ratios, outcomes
from bench.queue.running import in_order
from bench.tables.table import Chart, Profile, Series, Table

PARTS: Final[Mapping[Profile, tuple[int, int]]] = {Profile.QUICK: (6, 50), Profile.FULL: (40, 100)}
"""Seeds, and gangs of each seed and number of roles."""

ROLES: Final = (1, 2)
OPTIMA: Final = ("fewest", "nearest")
CALLED: Final = {"fewest": "fewest domains", "nearest": "fewest in the nearest"}

Key = tuple[int, str]
"""The number of roles, and the level."""


def make(profile: Profile, workers: int) -> Table:
    """The table. Quick: 300 gangs of each number of roles. Full: 4,000."""
    seeds, size = PARTS[profile]
    cases = [(seed, roles, size) for roles in ROLES for seed in range(seeds)]
    found: dict[Key, list[Outcome]] = {(roles, level): [] for roles in ROLES for level in LEVELS}
    for (_, roles, _), part in zip(
        cases, in_order(outcomes, [*zip(*cases, strict=True)], workers), strict=True
    ):
        for level, own in part.items():
            found[roles, level] += own
    return layout(found)


def layout(found: Mapping[Key, Sequence[Outcome]]) -> Table:
    """Rows by number of roles, level, and optimum."""
    ratios = {
        (*key, name): Ratios.of([(one.planned, getattr(one, name)) for one in own])
        for key, own in found.items()
        for name in OPTIMA
    }
    fewest = [own for (_, _, name), own in ratios.items() if name == "fewest"]
    figures = {
        "domains_over_optimum": max(own.mean for own in fewest),
        "optimal_share": min(own.optimal for own in fewest),
        "worst_ratio": max(own.worst for own in fewest),
        "missed_gangs": float(sum(own.missed for own in fewest)),
    }
    for (roles, level, name), own in ratios.items():
        figures[f"{name}_{level}_roles_{roles}"] = own.mean
    return Table(
        title="Placement in fragmented clusters",
        shows="The domains that `pack` takes for a gang in a partly used cluster, over the fewest that a mixed-integer "
        "solver finds. It judges one placement in a random cluster, not what it leaves for later gangs.",
        columns=(
            "roles",
            "level",
            "optimum",
            "gangs",
            "mean ratio",
            "±",
            "mean if > 1",
            "optimal, %",
            "worst",
            "no seats",
        ),
        rows=[
            (
                roles,
                level,
                CALLED[name],
                own.gangs,
                round(own.mean, 4),
                round(own.interval, 4),
                round(own.wide, 4),
                round(100 * own.optimal, 1),
                round(own.worst, 2),
                own.missed,
            )
            for (roles, level, name), own in ratios.items()
        ],
        figures=figures,
        notes=(
            (
                "Clusters: 1 to 3 blocks of 2 to 5 racks of 2 to 8 nodes with 8 GPUs. In each cluster 20 to 90% of the nodes are "
                "partly or fully used. Gangs: 2 to 32 members of 1, 2, 4 or 8 GPUs. A second role has 1 to 8 members. "
                "Only gangs that fit are counted."
            ),
            (
                "fewest domains: anywhere in the cluster. fewest in the nearest: inside one domain of the finest coarser level "
                "that holds the gang, which is Gangwright's order: first a short distance, then few domains."
            ),
            "mean if > 1: the mean over the gangs that no single domain holds.",
        ),
        charts=[
            Chart(
                "optimum",
                "mean ratio",
                [
                    Series(
                        f"{level}, {roles} role{'s' if roles > 1 else ''}",
                        [CALLED[name] for name in OPTIMA],
                        [ratios[roles, level, name].mean for name in OPTIMA],
                        [ratios[roles, level, name].interval for name in OPTIMA],
                    )
                    for roles, level in found
                ],
            )
        ],
    )
