"""`python -m bench.chaos`."""

import asyncio
import json
import os
import sys
from typing import Annotated

import typer

from bench.chaos import running, schedule
from bench.ending import run
from tests.plane import Plane, PlaneError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Count = Annotated[int, typer.Option(min=0)]


@app.command()
def chaos(*, kills: Count = 30, freezes: Count = 6, outages: Count = 4, seed: int = 1) -> None:
    """Breaks a real control plane with two replicas under load; a line a kind of fault, then what was counted.

    Faults are kills of the leader's programs at a bind, freezes of 40 s, and outages of the API server or etcd of 20 s.
    Ends with 1 if the accountant found any violation.
    """
    if os.geteuid():
        raise PlaneError("two replicas need host names of their own, which takes root")
    order = schedule.faults(seed, kills=kills, freezes=freezes, outages=outages)
    with Plane(scheduler=False, controllers=True) as plane, running.replicas(plane) as pods:
        found = asyncio.run(_print(plane, pods, order, seed))
    sys.exit(1 if found else 0)


async def _print(plane, pods, order, seed) -> object:
    line = {}
    async for line in running.run(plane, pods, order, seed):
        print(json.dumps(line), flush=True)
    return line["violations"]


if __name__ == "__main__":
    run(app, PlaneError)
