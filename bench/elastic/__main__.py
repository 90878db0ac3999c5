"""`python -m bench.elastic resize | failures | floods | refused | experiments`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.elastic import failures as failing
from bench.elastic import flood as flooding
from bench.elastic import overhead as cost
from bench.elastic import refused as hopeless
from bench.elastic import resize as resizing
from bench.elastic.experiments import convergence
from bench.elastic.experiments.running import EXPERIMENTS, Lengths
from bench.elastic.stage import INSTALLED, stage
from bench.ending import run
from bench.plane import PlaneError

app = typer.Typer(
    help="Real Horovod on the whole plane: how long a change of size takes, and what elastic jobs are good for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """All need quiet around them: every figure is a time."""


@app.command()
def resize(
    *,
    repeats: Annotated[int, typer.Option(min=1, help="Joins and leaves of every road; medians count.")] = 5,
    pause: Annotated[float, typer.Option(min=0, help="Seconds of training between two changes.")] = 8.0,
    large: Annotated[
        int, typer.Option(min=0, help="Joins and leaves at 4 and at 8 workers with 25 M weights.")
    ] = 5,
    starts: Annotated[
        int, typer.Option(min=1, help="Starts of our job and of a bare one, for what a step costs more.")
    ] = 12,
    seconds: Annotated[
        float,
        typer.Option(min=1, help="Of both side by side at each of these starts, for what a step costs."),
    ] = 60.0,
    quick: Annotated[bool, typer.Option("--quick", help="Once each, two workers alone: no result.")] = False,
) -> None:
    """Idle times of a join and a leave: ours, `horovodrun` elastic, checkpoint and restart; a line a turn, then a
    summary.
    """
    if quick:
        repeats, pause, large, starts, seconds = 1, 1.0, 0, 1, 6.0
    turns, larger = [], []
    with stage(8 if large else 2) as running:
        for turn in resizing.two(running, repeats, pause):
            turns.append(turn)
            _print(turn.line(workers=2))
        for size, turn in resizing.large(running, large):
            larger.append((size, turn))
            _print(turn.line(workers=size, weights="25 M"))
    with stage(cost.WORKERS, INSTALLED) as running:
        overhead = cost.measure(running, starts, seconds)
    _print({"overhead": overhead})
    for line in resizing.ranges(turns, larger):
        _print(line)
    _print(resizing.summary(turns, larger, overhead))


@app.command()
def failures(
    *, repeats: Annotated[int, typer.Option(min=1, help="Losses of every kind; the worst counts.")] = 5
) -> None:
    """A worker is killed, one stands still, the master is killed: a line a loss, then medians, ranges and targets."""
    found = []
    with stage(failing.SLOTS) as running:
        for loss in failing.losses(running, repeats):
            found.append(loss)
            _print(loss.line())
    _print(failing.summary(found))


@app.command()
def floods(
    *,
    seconds: Annotated[float, typer.Option(min=1, help="Of each flood.")] = 60.0,
    which: Annotated[str, typer.Option(help="Which, in this order.")] = ",".join(flooding.FLOODS),
) -> None:
    """Silent, idle and half-sent connections, and handshakes, in the thousands: the master's memory, how late beats
    are answered, and workers lost; a line a flood.
    """
    kinds = which.split(",")
    if any(kind not in flooding.FLOODS for kind in kinds):
        raise typer.BadParameter(f"{which!r} must be some of {', '.join(flooding.FLOODS)}")
    with stage(flooding.WORKERS + 2, INSTALLED) as running:
        for line in flooding.floods(running, seconds, kinds):
            _print({**line, "missed": flooding.missed(line)})


@app.command()
def refused(
    *,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs of which the API server makes no pod.")] = 300,
    minutes: Annotated[int, typer.Option(min=1, help="Minutes to look; the last one counts.")] = 6,
) -> None:
    """What the master uses for jobs whose pods are refused for good: a line a minute, then the last against its target."""
    found = []
    for line in hopeless.minutes(jobs, minutes):
        found.append(line)
        _print(line)
    _print(hopeless.summary(found))


@app.command()
def experiments(
    *,
    which: Annotated[str, typer.Option(help="Which, in this order.")] = "two-jobs,serving,convergence",
    out: Annotated[
        Path | None, typer.Option(help="Folder that pictures are written to.", file_okay=False)
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Of one of the two jobs with four workers.")] = 240.0,
    seeds: Annotated[int, typer.Option(min=1, help="Of each size, for the accuracy.")] = convergence.SEEDS,
    epochs: Annotated[int, typer.Option(min=6, help="Of each run, for the accuracy.")] = convergence.EPOCHS,
    quick: Annotated[bool, typer.Option("--quick", help="All much shorter: no result.")] = False,
) -> None:
    """ElasticDL's three: a line a run, padded step times in each; the last line: figures, targets, and what is
    missed.
    """
    lengths = Lengths(20.0, False, 1, 6) if quick else Lengths(seconds, True, seeds, epochs)
    chosen = [word.strip() for word in which.split(",")]
    if any(word not in EXPERIMENTS for word in chosen) or len(set(chosen)) < len(chosen):
        raise typer.BadParameter(f"{which!r} must be different ones of {', '.join(EXPERIMENTS)}")
    said = {}
    for name in chosen:
        for line in EXPERIMENTS[name](lengths, out):
            said[name] = line
            _print(line)
    _print({**said, "missed": [f"{name}: {word}" for name, line in said.items() for word in line["missed"]]})


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    run(app, PlaneError)
