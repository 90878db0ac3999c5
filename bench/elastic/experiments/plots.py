"""Pictures: what was published on the left, what came out here on the right."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.elastic.experiments import convergence, published, serving, slots, two_jobs

COLOURS: Final = {
    "gang": "tab:gray",
    "elastic": "tab:green",
    "training": "tab:green",
    "serving": "tab:orange",
}
KINDS: Final = {convergence.TWO: "tab:blue", convergence.FOUR: "tab:orange", convergence.ELASTIC: "tab:green"}
THEIRS: Final = {
    convergence.TWO: "baseline_2workers",
    convergence.FOUR: "baseline_4workers",
    convergence.ELASTIC: "elastic_2_4workers",
}
"""How their columns begin."""


def two(gang: two_jobs.Run, elastic: two_jobs.Run, folder: Path) -> Path:
    figure, (left, right) = _panels("Two jobs of four workers on six slots")
    for name in ("gang", "elastic"):
        line = published.timeline(f"{name}_allreduce")
        _line(left, line, name, published.TWO_JOBS_SLOTS)
    for run in (gang, elastic):
        _line(right, run.line, run.name, published.TWO_JOBS_SLOTS)
    right.axvline(elastic.submitted[1], color="black", lw=0.8, ls=":")
    left.axvline(published.SECOND_JOB, color="black", lw=0.8, ls=":")
    for axes, title in ((left, "ElasticDL, published (GPUs)"), (right, "here (emulated slots)")):
        _finish(axes, title, published.TWO_JOBS_SLOTS, "slots in use; dotted: the second job is submitted")
    return _saved(figure, folder / "two-jobs.png")


def _line(axes: Axes, line: slots.Timeline, name: str, count: int) -> None:
    times = list(line)
    label = f"{name}: {times[-1]:.0f} s, {100 * slots.mean_use(line, count):.1f} % used"
    axes.step(times, list(line.values()), where="post", color=COLOURS[name], label=label)


def beside_serving(run: serving.Run, folder: Path) -> Path:
    figure, (left, right) = _panels("Training beside serving on eight slots")
    theirs = [published.timeline(name) for name in ("tf_serving", "elastic_training", "overall_cluster")]
    _stack(left, *theirs)
    _stack(right, run.serving, run.training, run.overall)
    for axes, title in ((left, "ElasticDL, published (GPUs)"), (right, "here (emulated slots)")):
        _finish(axes, title, published.SERVING_SLOTS, "slots in use")
    return _saved(figure, folder / "serving.png")


def _stack(axes: Axes, below: slots.Timeline, above: slots.Timeline, overall: slots.Timeline) -> None:
    times = sorted({*below, *above})
    heights = [[_at(line, time) for time in times] for line in (below, above)]
    axes.stackplot(
        times,
        *heights,
        step="post",
        labels=["serving", "training"],
        colors=[COLOURS["serving"], COLOURS["training"]],
        alpha=0.6,
    )
    used = 100 * slots.mean_use(overall, published.SERVING_SLOTS)
    axes.step(
        list(overall),
        list(overall.values()),
        where="post",
        color="black",
        lw=1,
        label=f"all: {used:.1f} % used",
    )


def _at(line: slots.Timeline, time: float) -> int:
    return next((count for at, count in reversed(list(line.items())) if at <= time), 0)


def accuracies(runs: Sequence[convergence.Run], folder: Path) -> Path:
    figure, (left, right) = _panels("Accuracy by epoch")
    for name, own in published.accuracies().items():
        kind = next(kind for kind, begins in THEIRS.items() if name.startswith(begins))
        left.plot(
            range(1, len(own) + 1), own, color=KINDS[kind], lw=1, label=kind if name.endswith("_0") else None
        )
    for kind, colour in KINDS.items():
        mine = [run.accuracies for run in runs if run.name == kind]
        for one in mine:
            right.plot(range(1, len(one) + 1), one, color=colour, lw=0.5, alpha=0.4)
        means = [sum(column) / len(column) for column in zip(*mine, strict=False)]
        right.plot(
            range(1, len(means) + 1), means, color=colour, lw=2, label=f"{kind}, mean of {len(mine)} seeds"
        )
    left.set(title="ElasticDL, published: ResNet20, CIFAR-10", xlabel="epoch", ylabel="test accuracy")
    right.set(title="here: small residual network, digits", xlabel="epoch", ylabel="test accuracy")
    for axes in (left, right):
        axes.legend(loc="lower right")
        axes.grid(alpha=0.3)
    return _saved(figure, folder / "accuracy.png")


def _panels(title: str) -> tuple[Figure, Sequence[Axes]]:
    figure, axes = plt.subplots(1, 2, figsize=(13, 4.5), layout="constrained")
    figure.suptitle(title)
    return figure, axes


def _finish(axes: Axes, title: str, count: int, label: str) -> None:
    axes.set(title=title, xlabel="seconds", ylabel=label, ylim=(0, count + 1.6), xlim=(0, None))
    axes.axhline(count, color="black", lw=0.5, ls="--")
    axes.legend(loc="upper right", ncols=3, fontsize="small")


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
