"""`python -m bench.queue [forecast]`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.ending import run
from bench.queue import bars, foretold
from bench.queue.cases import CLUSTERS, QUEUES
from bench.queue.running import run_all
from bench.simulator import StuckError
from bench.traces import TraceError

app = typer.Typer(
    help="How long gangs wait under each order of the queue, on three real traces, decided by the live engine.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Clusters = Annotated[str, typer.Option(help="Which, in this order.")]
First = Annotated[
    int | None, typer.Option(min=1, help="Only so many jobs of each trace: a quick look, no result.")
]
Plots = Annotated[Path | None, typer.Option(help="Folder that pictures are written to.", file_okay=False)]
Workers = Annotated[int, typer.Option(min=1, help="Runs at a time, each in a process of its own.")]

ALL_CLUSTERS = ",".join(cluster.name for cluster in CLUSTERS)
ALL_QUEUES = ",".join(queue.name for queue in QUEUES)
CORES = os.cpu_count() or 1


@app.callback(invoke_without_command=True)
def compare(
    context: typer.Context,
    *,
    clusters: Clusters = ALL_CLUSTERS,
    queues: Annotated[str, typer.Option(help="Which, in this order.")] = ALL_QUEUES,
    first: First = None,
    plots: Plots = None,
    workers: Workers = CORES,
) -> None:
    """A line of JSON a cluster and queue, times in hours; the last line: ratios, bars, and which are missed."""
    if context.invoked_subcommand is not None:
        return
    chosen = _chosen(clusters, CLUSTERS), _chosen(queues, QUEUES)
    results = []
    for result in run_all(*chosen, first=first, workers=workers):
        results.append(result)
        print(json.dumps(result.line()), flush=True)
    if plots is not None:
        from bench.queue.plots import draw

        for path in draw(results, plots):
            print(path, file=sys.stderr, flush=True)
    print(json.dumps(bars.summary(results)), flush=True)


@app.command()
def forecast(
    *,
    clusters: Clusters = ALL_CLUSTERS,
    first: First = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Of the gangs that wait, how many are asked about.",
            show_default="each cluster's own",
        ),
    ] = None,
    plots: Plots = None,
    workers: Workers = CORES,
) -> None:
    """Starts foretold at submission, held against the real ones: a line a cluster; the last line: bars, and what is
    missed.
    """
    runs = []
    for found in foretold.run_all(_chosen(clusters, CLUSTERS), first=first, share=share, workers=workers):
        runs.append(found)
        print(json.dumps(found.line()), flush=True)
    if plots is not None:
        from bench.queue.plots import draw_forecasts

        print(draw_forecasts(runs, plots), file=sys.stderr, flush=True)
    print(json.dumps(foretold.summary(runs)), flush=True)


def _chosen(said: str, table: tuple[Any, ...]) -> list[Any]:
    known = {row.name: row for row in table}
    words = [word.strip() for word in said.split(",")]
    if any(word not in known for word in words) or len(set(words)) < len(words):
        raise typer.BadParameter(f"{said!r} must be different ones of {', '.join(known)}")
    return [known[word] for word in words]


if __name__ == "__main__":
    run(app, StuckError, TraceError)
