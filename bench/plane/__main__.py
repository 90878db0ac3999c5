"""The plane by hand: `python -m bench.plane up`, `build`, `path`."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bench.plane import binaries, nodes, sources
from bench.plane.control_plane import Plane
from bench.plane.errors import PlaneError
from bench.plane.nodes import Fleet

LOOK = 0.5
"""Seconds between two looks at whether every program still runs."""

app = typer.Typer(
    help="A real Kubernetes control plane on this machine, on loopback, with fake nodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def build() -> None:
    """Build the plane's programs into the cache, unless they are there."""
    binaries.ensure()
    path()


@app.command()
def path() -> None:
    """Say where each program is; those not built yet are named on stderr."""
    found = binaries.find()
    for program in sources.PROGRAMS:
        if program in found:
            print(found[program])
        else:
            _say(f"{program}: not built; `python -m bench.plane build` does it")


@app.command()
def up(
    *,
    description: Annotated[Path | None, typer.Option("--nodes", help="Nodes as YAML; see nodes.py.")] = None,
    racks: Annotated[int, typer.Option(help="Racks of the fake cluster; 0 for no nodes.")] = 4,
    nodes_per_rack: Annotated[int, typer.Option(help="Nodes in each rack.")] = 8,
    areas: Annotated[int, typer.Option(help="Areas the racks are dealt to.")] = 1,
    gpus: Annotated[int, typer.Option(help="GPUs of each node.")] = 8,
    manifests: Annotated[
        Path | None, typer.Option(help="Apply this folder, but for its Deployments.")
    ] = None,
    scheduler: Annotated[bool, typer.Option(help="The plain kube-scheduler.")] = True,
    controllers: Annotated[
        bool, typer.Option(help="kube-controller-manager: Jobs, namespaces, PDBs.")
    ] = True,
    kwok: Annotated[bool, typer.Option(help="kwok, which runs the pods of fake nodes.")] = True,
    audit: Annotated[bool, typer.Option(help="Keep an audit log.")] = False,
    native_gangs: Annotated[bool, typer.Option(help="Switch on kube-scheduler's own gangs.")] = False,
    keep: Annotated[bool, typer.Option(help="Leave folder and logs behind.")] = False,
) -> None:
    """Bring the plane up, print its KUBECONFIG line, and stay until Ctrl-C."""
    signal.signal(signal.SIGTERM, _leave)
    fleets = nodes.read(description) if description else _fleets(racks, nodes_per_rack, areas, gpus)
    plane = Plane(
        scheduler=scheduler,
        controllers=controllers,
        kwok=kwok,
        audit=audit,
        native_gangs=native_gangs,
        keep=keep,
    )
    begun = time.monotonic()
    try:
        with plane:
            if manifests is not None:
                _say(plane.apply_manifests(manifests).strip())
            count = asyncio.run(_furnish(plane, fleets))
            _say(
                f"Up in {time.monotonic() - begun:.1f} s with {count} nodes; logs in {plane.folder}; Ctrl-C ends it."
            )
            print(f"export KUBECONFIG={plane.kubeconfig()}", flush=True)
            _stay(plane)
    except KeyboardInterrupt:
        _say("The plane is down.")


async def _furnish(plane: Plane, fleets: list[Fleet]) -> int:
    async with plane.client() as api:
        return len(await nodes.create(api, *fleets))


def _fleets(racks: int, nodes_per_rack: int, areas: int, gpus: int) -> list[Fleet]:
    return [Fleet(racks=racks, nodes_per_rack=nodes_per_rack, areas=areas, gpus=gpus)] if racks else []


def _stay(plane: Plane) -> NoReturn:
    while True:
        for program in plane.programs.values():
            if not program.alive:
                raise PlaneError(f"{program.name} has ended. {program.log_end()}")
        time.sleep(LOOK)


def _leave(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        app()
    except PlaneError as error:
        sys.exit(f"plane: {error}")
