"""`python -m bench.soak engine | plane`."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bench.ending import run
from bench.load import cluster
from bench.plane import PlaneError
from bench.soak import engine as engine_room
from bench.soak import plane as plane_room

app = typer.Typer(
    help="Memory, events and the end of a Gangwright through which many gangs went.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def engine(
    *,
    gangs: Annotated[int, typer.Option(min=100, help="Gangs, made and gone.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Tells the same story again.")] = 1,
) -> None:
    """The engine and its ledger in this process, on a simulated clock; a line a tenth, then what grew."""
    for line in engine_room.measure(gangs, seed):
        _print(line)


@app.command()
def plane(
    *,
    gangs: Annotated[int, typer.Option(min=10, help="Gangs, made and gone.")] = 5000,
    rate: Annotated[float, typer.Option(min=0.1, help="Gangs a second.")] = 10.0,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of eight GPUs.")] = 50,
    seed: Annotated[int, typer.Option(help="Tells the same story again.")] = 1,
) -> None:
    """`gangwright serve` and kube-scheduler as the manifests run them; a line a tenth, then how it ended."""

    async def told() -> None:
        with cluster.plane(audit=True) as running:
            async for line in plane_room.measure(running, gangs=gangs, rate=rate, nodes=nodes, seed=seed):
                _print(line)

    asyncio.run(told())


def _print(line: Mapping[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    run(app, PlaneError)
