"""Each experiment on a plane of its own: its runs, its pictures, and at last its summary."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.elastic.experiments import convergence, published, serving, two_jobs
from bench.elastic.stage import stage

Line = dict[str, Any]

SHORT: Final = (((5.0, 1), (15.0, 4), (30.0, -2)), 60.0)
"""Changes of the serving pods, and the end, of a quick look: seconds."""


@dataclass(frozen=True)
class Lengths:
    """job: seconds of one of two jobs with four workers. whole: their timeline of serving pods, or a few changes.
    seeds: how many.
    """

    job: float
    whole: bool
    seeds: int
    epochs: int


def _two_jobs(lengths: Lengths, out: Path | None) -> Iterator[Line]:
    with stage(published.TWO_JOBS_SLOTS) as running:
        gang = two_jobs.gang(running, lengths.job)
        yield gang.told()
        elastic = two_jobs.elastic(running, lengths.job)
        yield elastic.told()
    if out is not None:
        from bench.elastic.experiments import plots

        _drawn(plots.two(gang, elastic, out))
    yield two_jobs.summary(gang, elastic)


def _serving(lengths: Lengths, out: Path | None) -> Iterator[Line]:
    with stage(published.SERVING_SLOTS) as running:
        found = serving.replay(running) if lengths.whole else serving.run(running, *SHORT)
        yield found.told()
    if out is not None:
        from bench.elastic.experiments import plots

        _drawn(plots.beside_serving(found, out))
    yield serving.summary(found)


def _convergence(lengths: Lengths, out: Path | None) -> Iterator[Line]:
    found = []
    with stage(convergence.SLOTS) as running:
        for run in convergence.runs(running, range(1, lengths.seeds + 1), lengths.epochs):
            found.append(run)
            yield run.told()
    if out is not None:
        from bench.elastic.experiments import plots

        _drawn(plots.accuracies(found, out))
    yield convergence.summary(found)


def _drawn(path: Path) -> None:
    print(path, file=sys.stderr, flush=True)


EXPERIMENTS: Final[Mapping[str, Callable[[Lengths, Path | None], Iterator[Line]]]] = {
    "two-jobs": _two_jobs,
    "serving": _serving,
    "convergence": _convergence,
}
"""By the name it is asked for by; the last line of each has what is missed."""
