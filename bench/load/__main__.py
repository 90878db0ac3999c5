"""`python -m bench.load throughput | gangs | crowd | floods`."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Annotated

import typer

from bench.ending import run
from bench.load import cluster
from bench.load import crowd as crowd_room
from bench.load import floods as floods_room
from bench.load import gangs as gangs_room
from bench.load import throughput as throughput_room
from bench.load.roads import ROADS
from bench.load.work import Object
from bench.plane import PlaneError

app = typer.Typer(
    help="A real kube-scheduler with and without Gangwright, measured in one run, on loopback.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

THROUGHPUT = "none,pinned,nominated,side"
GANGS = "none,native,gangwright"


@app.command()
def throughput(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of eight GPUs.")] = 1000,
    pods: Annotated[int, typer.Option(min=1, help="Pods of one GPU, in gangs of eight.")] = 2000,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of every road; medians count.")] = 3,
    roads: Annotated[str, typer.Option(help="Which, in this order.")] = THROUGHPUT,
    profiled: Annotated[
        bool, typer.Option("--profile", help="Also say what the API server spends its time on.")
    ] = False,
) -> None:
    """Pods a second when all of them wait already; a line a road, then the ratios to `none`."""
    chosen = _chosen(roads, ROADS, THROUGHPUT)
    _check_room(pods, nodes)
    with cluster.plane() as plane:
        asyncio.run(
            _print(
                throughput_room.measure(
                    plane, chosen, nodes=nodes, pods=pods, repeats=repeats, profiled=profiled
                )
            )
        )


@app.command()
def gangs(
    *,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs.")] = 20,
    size: Annotated[int, typer.Option(min=1, help="Members of each, of one GPU.")] = 100,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of eight GPUs.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of every road; medians count.")] = 3,
    roads: Annotated[str, typer.Option(help="Which, in this order.")] = GANGS,
) -> None:
    """Seconds from the first create to the last bind; a line a road, then the ratios of `gangwright`."""
    chosen = _chosen(roads, ROADS, GANGS)
    _check_room(gangs * size, nodes)
    with cluster.plane(native_gangs=True) as plane:
        asyncio.run(
            _print(gangs_room.measure(plane, chosen, gangs=gangs, size=size, nodes=nodes, repeats=repeats))
        )


@app.command()
def crowd(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of eight GPUs.")] = 5000,
    pods: Annotated[int, typer.Option(min=8, help="Pods that run, eight or more a node.")] = 50_000,
    gangs: Annotated[int, typer.Option(min=2, help="Gangs of four that wait.")] = 500,
) -> None:
    """Start beside many pods, explain many gangs, and react to an end; one line."""
    if pods < nodes * cluster.GPUS:
        raise typer.BadParameter(f"{pods} pods are less than {nodes} nodes of {cluster.GPUS} GPUs")
    with cluster.plane() as plane:
        asyncio.run(_print(crowd_room.measure(plane, nodes=nodes, pods=pods, gangs=gangs)))


@app.command()
def floods(
    *,
    seconds: Annotated[
        float, typer.Option(min=1, help="Of each phase, and again beside a bare server.")
    ] = 60.0,
    phases: Annotated[str, typer.Option(help="Which, in this order.")] = ",".join(floods_room.FLOODS),
) -> None:
    """How long `filter` takes while others flood the other ports; a line a phase, then a table for people."""
    chosen = _chosen(phases, floods_room.FLOODS, "quiet,scrapes")
    with cluster.plane() as plane:
        lines = []
        for line in floods_room.measure(plane, seconds, chosen):
            lines.append(line)
            print(json.dumps(line), flush=True)
    cluster.say(floods_room.table(lines))


def _chosen(said: str, table: Collection[str], usual: str) -> list[str]:
    chosen = [word.strip() for word in said.split(",")]
    unknown = [word for word in chosen if word not in table]
    if unknown or len(set(chosen)) < len(chosen):
        raise typer.BadParameter(f"{said!r} must be different ones of {', '.join(table)}, e.g. {usual}")
    return chosen


def _check_room(pods: int, nodes: int) -> None:
    if pods > nodes * cluster.GPUS:
        raise typer.BadParameter(f"{pods} pods of one GPU do not fit {nodes} nodes of {cluster.GPUS}")


async def _print(lines: AsyncIterator[Object]) -> None:
    async for line in lines:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    run(app, PlaneError)
