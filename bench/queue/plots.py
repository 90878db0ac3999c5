"""Pictures of the runs: how many waited for how long, and what each size of gang waited on average."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.queue.foretold import Foresight, Foretold
from bench.queue.running import Result
from bench.report import HOUR, SIZES

LEAST: Final = 1 / 60
"""Hours; who waited less is drawn at the left edge."""

CLASSES: Final = [name for _, name in reversed(SIZES)]


def draw(results: Sequence[Result], folder: Path) -> list[Path]:
    """One picture a cluster, `queue-NAME.png`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(result.cluster for result in results))
    return [_cluster(name, [r for r in results if r.cluster == name], folder) for name in names]


def _cluster(name: str, results: Sequence[Result], folder: Path) -> Path:
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    figure.suptitle(f"Philly virtual cluster {name}: {len(results[0].fates)} jobs")
    for result in results:
        _waited(left, result)
    left.set(xscale="log", xlim=(LEAST, None), ylim=(0, 1))
    left.set(xlabel="wait, hours", ylabel="share of jobs that waited no longer")
    left.legend()
    _by_size(right, results)
    path = folder / f"queue-{name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _waited(axes: Axes, result: Result) -> None:
    waits = sorted(max(fate.wait / HOUR, LEAST) for fate in result.fates)
    shares = [(number + 1) / len(waits) for number in range(len(waits))]
    axes.step(waits, shares, where="post", label=f"{result.queue} (mean {result.report.all.wait.mean:.1f} h)")


def _by_size(axes: Axes, results: Sequence[Result]) -> None:
    width = 0.8 / len(results)
    for turn, result in enumerate(results):
        sizes = result.report.sizes
        means = [sizes[name].wait.mean if name in sizes else 0.0 for name in CLASSES]
        axes.bar([place + turn * width for place in range(len(CLASSES))], means, width, label=result.queue)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(CLASSES))], CLASSES)
    axes.set(xlabel="GPUs of the gang", ylabel="mean wait, hours", yscale="symlog")
    axes.legend()


def draw_forecasts(runs: Sequence[Foresight], folder: Path) -> Path:
    """What was foretold beside what came true, a panel a cluster: `forecast.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(
        1, len(runs), figsize=(6 * len(runs), 5.5), layout="constrained", squeeze=False
    )
    for axes, run in zip(panels[0], runs, strict=True):
        _foretold(axes, run)
    path = folder / "forecast.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _foretold(axes: Axes, run: Foresight) -> None:
    """Dots on the diagonal came true to the minute; a bar that meets it held the truth."""
    for held, colour in ((True, "tab:blue"), (False, "tab:red")):
        rows = [(one, one.said) for one in run.found if one.said is not None and one.covered is held]
        waits = [one.wait / HOUR for one, _ in rows]
        said = [[_hours(one, at) for at in (s.low, s.middle, s.high)] for one, s in rows]
        errors = [[middle - low for low, middle, _ in said], [high - middle for _, middle, high in said]]
        label = f"{'inside' if held else 'outside'} of the interval: {len(rows)}"
        axes.errorbar(
            waits, [row[1] for row in said], errors, fmt=".", color=colour, alpha=0.35, lw=0.6, label=label
        )
    low, high = axes.get_xlim()[0], axes.get_xlim()[1]
    axes.plot([LEAST, max(high, 1.0)], [LEAST, max(high, 1.0)], color="black", lw=0.8)
    axes.set(xscale="log", yscale="log", xlim=(max(low, LEAST), None), ylim=(LEAST, None))
    axes.set(
        title=f"{run.cluster}: {len(run.found)} gangs", xlabel="wait, hours", ylabel="foretold wait, hours"
    )
    axes.legend()


def _hours(one: Foretold, at: float) -> float:
    return max((at - one.job.arrival) / HOUR, LEAST)
