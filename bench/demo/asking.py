"""A user at a shell: which pods would my job preempt, why does it wait, when does it start? Acts 4 and 5 are made of these.

Lives here: the command line's own answers, shown as they are, and what became of them.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from bench.demo import shell
from bench.demo.cast import Gang
from bench.demo.record import Record
from bench.demo.screen import indented, interval
from bench.demo.stage import Stage

BLOCKED = {"InsufficientResources", "TopologyUnsatisfied", "CapacityReserved"}
"""Reasons that room would change."""

MARGIN = 1.2
"""The picture of a forecast ends a little later than its latest time."""


@dataclass(frozen=True)
class Forecast:
    """When a gang is expected to start, in seconds since the epoch: the middle, and the bounds of four cases in
    five.
    """

    low: float
    middle: float
    high: float


async def cost(stage: Stage, record: Record, gang: Gang) -> tuple[Counter[str], float]:
    """A dry run: by name of a Job how many of its pods would leave for this gang; and how long the answer took."""
    clock = asyncio.get_running_loop().time
    began, place = clock(), stage.gangwright.plane.folder / f"{gang.name}.json"
    place.write_text(json.dumps({"apiVersion": "batch/v1", "kind": "Job", **gang.job("gangwright")}))
    words = ("simulate", "--offline", "-n", "room", "-f", str(place))
    shown, told = await asyncio.gather(shell.run(stage, *words), shell.run(stage, *words, "-o", "json"))
    shell.show(stage, shown, paragraphs=2)
    leave = Counter[str]()
    for outcome in told.json or ():
        for victim in outcome["victims"]:
            pod = record.pods.get(victim["gang"])
            leave[pod.gang if pod else victim["gang"]] += victim["pods"]
    return leave, clock() - began


async def why(stage: Stage, gang: Gang) -> Forecast | None:
    """A gang waits, all of it; the answer holds the forecast of its start."""
    stage.title(f"4  Why does my job wait?   {gang.name} was preempted, and its owner asks")
    place = f"room/{gang.name}"
    words = ("explain", "--offline", place)
    shown, told = await asyncio.gather(shell.run(stage, *words), shell.run(stage, *words, "-o", "json"))
    shell.show(stage, shown)
    answer: dict[str, Any] = told.json or {}
    row, lacks = answer.get("gang", {}), answer.get("shortfalls", [])
    stage.claims.check(
        "It says why, what is lacking, and its place in the queue",
        shown.code == 0
        and row.get("reason") in BLOCKED
        and row.get("position")
        and [own["needed"] for own in lacks] == [gang.members],
        f"{row.get('reason')}, place {row.get('position')} in the queue, {_lacking(lacks)}",
    )
    found = row.get("forecast")
    stage.claims.check("It says when it expects to start", found)
    return Forecast(found["low"], found["middle"], found["high"]) if found else None


def _lacking(lacks: list[dict[str, Any]]) -> str:
    return "; ".join(f"{own['needed']} needed, room for {own['best']}" for own in lacks) or "nothing lacking"


async def when(stage: Stage, record: Record, gang: Gang, told: Forecast | None) -> None:
    """Until all of it has its seats, and how that compares with the forecast."""
    if told is None:
        return
    stage.title("5  When does it start?   The forecast, and what became of it")
    await record.until(lambda r: len(r.here(gang.name)) >= gang.members, f"{gang.name} has its seats again")
    now = datetime.now(UTC).timestamp() - asyncio.get_running_loop().time()
    began = now + max(seen.bound or 0.0 for seen in record.here(gang.name))
    asked = now + max(seen.created for seen in record.here(gang.name))
    times = {name: getattr(told, name) - asked for name in ("low", "middle", "high")}
    table = Table.grid(padding=(0, 2))
    span = max(times["high"], began - asked) * MARGIN
    low, middle, high = times["low"] / span, times["middle"] / span, times["high"] / span
    said = f"{times['middle']:.1f} s ({times['low']:.1f} … {times['high']:.1f})"
    table.add_row(Text("forecast", style="bold"), interval(low, middle, high), said)
    table.add_row(Text("came", style="bold"), interval((began - asked) / span), f"{began - asked:.1f} s")
    stage.console.print(indented(table))
    stage.say("  seconds since it was back in the queue\n")
    stage.claims.check(
        "The forecast came true: it started within the interval",
        told.low <= began <= told.high,
        f"{abs(began - told.middle):.1f} s from the middle",
    )
