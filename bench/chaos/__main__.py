"""`python -m bench.chaos`."""

import asyncio
import json
import os
import sys
from typing import Annotated

import typer

from bench.chaos import running
from bench.chaos.faults import schedule
from bench.ending import run
from bench.plane import Plane, PlaneError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Count = Annotated[int, typer.Option(min=0)]
Keep = Annotated[bool, typer.Option("--keep", help="Leave folder and logs of the plane behind.")]


@app.command()
def chaos(
    *, kills: Count = 30, freezes: Count = 6, outages: Count = 4, seed: int = 1, keep: Keep = False
) -> None:
    """Breaks a real control plane with two replicas under load; a line a kind of fault, then what was counted.

    Kills of the leader's programs at a bind, freezes of them for 40 s, outages of the API server or etcd of 20 s.
    Ends with 1 if there was any violation.
    """
    if os.geteuid():
        raise PlaneError("two replicas need host names of their own, which takes root")
    faults = schedule(seed, {"kill": kills, "freeze": freezes, "outage": outages})
    with Plane(scheduler=False, controllers=True, keep=keep) as plane, running.replicas(plane) as pods:
        violations = asyncio.run(_print(running.run(plane, pods, faults, seed)))
    sys.exit(bool(violations))


async def _print(lines):
    last = {}
    async for last in lines:
        print(json.dumps(last), flush=True)
    return last["violations"]


if __name__ == "__main__":
    run(app, PlaneError)
