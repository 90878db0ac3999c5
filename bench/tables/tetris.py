"""Tetris' experiment (bench.tetris) as a table of the report."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from bench.confidence import interval
from bench.tables.table import Cell, Chart, Profile, Series, Table
from bench.tetris import running
from bench.tetris.running import BLOCKING, FIFO, FIT, TETRIS, Outcome
from bench.tetris.tasks import DURATION

SEEDS: Final = {Profile.QUICK: 4, Profile.FULL: 30}
QUICK: Final = (*(name for name in running.NAMES if name in running.peers.RULES), FIFO, FIT)
"""The policies of the quick profile."""

PUBLISHED: Final[Mapping[str, tuple[float, float]]] = {
    BLOCKING: (7_083.0, 2_415.0),
    TETRIS: (5_519.0, 2_230.0),
}
"""Makespan and mean completion in seconds, on a workload that is not published."""


def make(profile: Profile, workers: int) -> Table:
    """The table. Every policy gets the same tasks."""
    names = QUICK if profile is Profile.QUICK else running.NAMES
    return table(running.run_all(range(SEEDS[profile]), workers, names))


def table(outcomes: Mapping[str, Sequence[Outcome]]) -> Table:
    """The table of these outcomes, which must include the named policies.  outcomes: by policy, one per seed."""
    spans = {name: [own.makespan for own in rows] for name, rows in outcomes.items()}
    base = statistics.fmean(spans[BLOCKING])
    gap = [own - other for own, other in zip(spans[FIT], spans[TETRIS], strict=True)]
    mean = {name: statistics.fmean(rows) for name, rows in spans.items()}
    error = {name: interval(rows) for name, rows in spans.items()}
    return Table(
        title="Tetris: packing tasks of four resources",
        shows="Makespan and completion of 40 jobs of 30 independent tasks on 20 nodes, under FIFO, Tetris' rule and the "
        "orders of Gangwright. The published workload is not available: the tasks are drawn by a generator of this "
        "bench, so published figures only give the scale.",
        columns=(
            "policy",
            "makespan, s",
            "± 95%",
            "to blocking FIFO, %",
            "mean completion, s",
            "longest wait, s",
            "published makespan, s",
            "published completion, s",
        ),
        rows=[
            (
                name,
                round(mean[name]),
                round(error[name]),
                round(100 * (mean[name] / base - 1), 1),
                *_rest(name, rows),
            )
            for name, rows in outcomes.items()
        ],
        figures={
            "fifo_makespan": mean[BLOCKING],
            "tetris_makespan": mean[TETRIS],
            "fit_makespan": mean[FIT],
            "fit_over_tetris": mean[FIT] / mean[TETRIS],
            "fit_minus_tetris": statistics.fmean(gap),
            "fit_minus_tetris_interval": interval(gap),
            "tetris_interval": error[TETRIS],
            "tetris_over_fifo": mean[TETRIS] / base,
            "fit_over_fifo": mean[FIT] / base,
            "default_over_fifo": mean[FIFO] / base,
            "fit_longest_wait": max(own.longest for own in outcomes[FIT]),
            "tetris_longest_wait": max(own.longest for own in outcomes[TETRIS]),
        },
        notes=(
            f"One number is calibrated: the mean duration ({DURATION:g} s), so that blocking FIFO takes as long as published.",
            "Rows of three words: Gangwright's engine with this `queue.order`, `queue.backfill` and strategy, else defaults.",
            "The other rows are list schedulers of the bench.",
            "The longest wait is the longest of any task in any seed. The default of `queue.ageLimit` is three days.",
            "The interval of a difference between policies is narrower than those of their means: all get the same tasks.",
        ),
        charts=(
            Chart(
                "policy",
                "makespan, s",
                (
                    Series("measured", list(mean), list(mean.values()), list(error.values())),
                    Series("published", list(PUBLISHED), [own for own, _ in PUBLISHED.values()]),
                ),
            ),
        ),
    )


def _rest(name: str, rows: Sequence[Outcome]) -> tuple[Cell, ...]:
    completion = round(statistics.fmean(own.completion for own in rows))
    return (completion, round(max(own.longest for own in rows)), *PUBLISHED.get(name, (None, None)))
