"""`python -m bench.demo`, or `make demo`: seven acts, and an exit code that tells whether every claim held."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from bench.demo import burst, deadlock, elastic, room, shapes
from bench.demo.claims import Claims
from bench.demo.stage import PROGRAMS, Stage, programs
from bench.plane import PlaneError, binaries
from bench.plane.installation import Installation

Act = Callable[[Stage], Awaitable[None]]

ACTS: dict[str, Act] = {
    "deadlock": deadlock.play,
    "shapes": shapes.play,
    "room": room.play,
    "burst": burst.play,
    "elastic": elastic.play,
}

INTERRUPTED = 130


def main(
    acts: Annotated[
        list[str] | None, typer.Argument(help=f"Which acts: {', '.join(ACTS)}; by default all.")
    ] = None,
) -> None:
    """Gangwright on a real control plane, on this machine: etcd, kube-apiserver, kube-scheduler, and fake nodes."""
    chosen = acts or list(ACTS)
    if unknown := [act for act in chosen if act not in ACTS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(ACTS)}")
    signal.signal(signal.SIGTERM, _leave)
    console = Console(highlight=False)
    claims = Claims(console)
    began = time.monotonic()
    try:
        binaries.ensure(PROGRAMS)
        if "elastic" in chosen:
            elastic.prepare()
        began = time.monotonic()  # a build is no part of a start
        with programs(console) as gangwright:
            console.print(
                f"Up in {time.monotonic() - began:.1f} s; logs in {gangwright.plane.folder}", style="dim"
            )
            asyncio.run(_perform(gangwright, console, claims, chosen))
    except KeyboardInterrupt:
        console.print("Interrupted; every program is stopped.")
        sys.exit(INTERRUPTED)
    except PlaneError as error:
        claims.check("The demo came to its end", False, str(error))
    _close(console, claims, time.monotonic() - began)


async def _perform(gangwright: Installation, console: Console, claims: Claims, chosen: list[str]) -> None:
    async with gangwright.plane.client() as api:
        stage = Stage(gangwright, api, console, claims)
        async with elastic.behind(stage) if "elastic" in chosen else nullcontext():
            for act in chosen:
                await ACTS[act](stage)


def _close(console: Console, claims: Claims, took: float) -> NoReturn:
    console.print()
    if claims.failed:
        console.print(
            f"[bold red]{len(claims.failed)} of {claims.made} claims did not hold[/] ({took:.0f} s)"
        )
        sys.exit(1)
    console.print(f"[bold green]All {claims.made} claims held[/] ({took:.0f} s); every program is stopped.")
    sys.exit(0)


def _leave(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    typer.run(main)
