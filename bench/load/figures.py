"""From runs to figures: medians of each road, and their ratios turn by turn. Pure."""

import statistics
from collections.abc import Mapping, Sequence

Figures = Mapping[str, Sequence[float]]
"""By road, one figure a run."""


def median(runs: Sequence[float]) -> float:
    return statistics.median(runs)


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By name, the median over the runs that name it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: round(median([run[name] for run in runs if name in run]), 3) for name in names}


def ratios(figures: Figures, *, over: str) -> dict[str, float]:
    """`ROAD_over_OVER`: the median, over the turns, of every other road divided by `over` in the same turn; empty
    without `over`.

    A shared machine has phases that last longer than a run and are larger than what is asked: within a turn they cancel
    out.
    """
    return {name: round(median(found), 3) for name, found in by_turn(figures, over=over).items()}


def by_turn(figures: Figures, *, over: str) -> dict[str, list[float]]:
    """The same turn by turn."""
    base = figures.get(over, ())
    return {
        f"{road}_over_{over}": [run / other for run, other in zip(runs, base, strict=True)]
        for road, runs in figures.items()
        if base and road != over
    }


def order(roads: Sequence[str], turn: int) -> list[str]:
    """The roads of one turn, each time beginning with another: none is always the first, or always after the same."""
    start = turn % len(roads)
    return [*roads[start:], *roads[:start]]


def rounded(runs: Sequence[float], digits: int = 3) -> list[float]:
    return [round(run, digits) for run in runs]
