"""Act 3: the cluster is full, and a gang of higher priority comes. Which pods are preempted, and that they come back.

Acts 4 and 5 go on from here (`asking`): the owner of a preempted gang asks why it waits, and when it starts.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from bench.demo import asking
from bench.demo.cast import Gang, end, make_again, submit
from bench.demo.claims import PARTLY
from bench.demo.palette import Palette
from bench.demo.record import Record, Seen
from bench.demo.screen import by_gpu, indented, panel
from bench.demo.stage import Stage
from bench.plane import Fleet, where
from bench.plane.client import Object

FLEET = Fleet(racks=2, nodes_per_rack=4, gpus=4)
ROOM = FLEET.racks * FLEET.nodes_per_rack * FLEET.gpus

EVERYDAY = [
    Gang("anna", members=8, gpus=1),
    Gang("boris", members=7, gpus=1),
    Gang("elastic", members=8, gpus=1, surplus=3),
    Gang("chen", members=4, gpus=1),
    Gang("single", members=2, gpus=1, alone=True),
]
"""They fill the room. Least is lost when what is above a quorum goes, the single pods, and the smallest gang."""
URGENT = Gang("urgent", members=9, gpus=1, priority="urgent")

BEYOND = 3.0
"""Seconds that the urgent gang still runs after a person has asked why and when."""

PALETTE = Palette(gang.name for gang in (*EVERYDAY, URGENT))
ELASTIC = next(gang for gang in EVERYDAY if gang.surplus)


async def play(stage: Stage) -> None:
    stage.title("3  A gang of high priority")
    stage.say(
        f"{ROOM} GPUs, all in use by work of normal priority. {ELASTIC.name} needs {ELASTIC.members} learners and has "
        f"{ELASTIC.surplus} more (small letters). Then a gang of {URGENT.members} of high priority comes; its owner asks first which pods it would preempt.\n"
    )
    async with (
        stage.cluster(FLEET) as nodes,
        _class(stage, URGENT.priority),
        stage.namespace("room") as record,
    ):
        await submit(stage.api, "room", EVERYDAY, "gangwright")
        await record.until(lambda r: _running(r) == ROOM, "all GPUs are in use")
        async with _made_again(stage, record):
            expected, took = await asking.cost(stage, record, URGENT)
            lasts = round(took + BEYOND)
            await _make_room(stage, nodes, record, lasts, expected)
            ends = record.whole_at(URGENT.name) + lasts
            gave_way = [gang for gang in EVERYDAY if not gang.alone and not record.here(gang.name)]
            forecast = await asking.why(stage, gave_way[0])
            await end(stage.api, "room", record, URGENT, ends)
            await asking.when(stage, record, gave_way[0], forecast)
            await _all_back(stage, nodes, record)


@asynccontextmanager
async def _class(stage: Stage, name: str) -> AsyncIterator[None]:
    await stage.api.create(where("priorityclasses"), {"metadata": {"name": name}, "value": 1000})
    try:
        yield
    finally:
        await stage.api.delete(where("priorityclasses", name=name))


@asynccontextmanager
async def _made_again(stage: Stage, record: Record) -> AsyncIterator[None]:
    """Recreate each evicted pod, as the Job controller would."""
    task = asyncio.create_task(make_again(stage.api, "room", record, EVERYDAY, "gangwright"))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _make_room(
    stage: Stage, nodes: list[Object], record: Record, lasts: int, expected: Counter[str]
) -> None:
    """lasts: seconds that the urgent gang runs, as its owner declares.  expected: how many of each Job would leave."""
    before = _picture(record)
    await submit(stage.api, "room", [replace(URGENT, expects=f"{lasts}s")], "gangwright")
    await record.until(lambda r: r.bound(URGENT.name) == URGENT.members, "the urgent gang has its nodes")
    after, victims = _picture(record), record.evicted()
    _show(stage, nodes, {"BEFORE": before, "AFTER": after})
    stage.console.print(indented(_table(record, victims)))
    _check(stage, record, victims)
    stage.claims.check(
        "The dry run named just these",
        expected == Counter(victim.gang for victim in victims),
        ", ".join(f"{count} of {name}" for name, count in expected.items()),
    )
    await record.until(
        lambda r: len(_gated(r)) == len(victims), "each preempted gang waits at its gate again"
    )
    stage.claims.check(
        "Each preempted gang is back in the queue", True, f"{len(victims)} pods recreated, behind their gate"
    )


def _check(stage: Stage, record: Record, victims: Sequence[Seen]) -> None:
    stage.claims.check(
        "The urgent gang is bound whole, by a plan written before",
        record.partly(URGENT.name) < PARTLY and not record.unplanned,
        f"{record.wait(URGENT.name):.1f} s after it came"
        + "".join(f"; unplanned: {name}" for name in record.unplanned),
    )
    shrunk = [victim for victim in victims if victim.surplus]
    core = [seen for seen in record.here(ELASTIC.name) if not seen.surplus]
    stage.claims.check(
        f"{ELASTIC.name} was shrunk and not stopped: it gave all above its quorum, and runs on with its quorum",
        len(shrunk) == ELASTIC.surplus and len(core) == ELASTIC.members,
        f"{len(shrunk)} of {ELASTIC.surplus} above the quorum left, {len(core)} of {ELASTIC.members} of it stayed",
    )
    left = {gang.name: len(record.here(gang.name)) for gang in EVERYDAY if not gang.alone}
    stage.claims.check(
        "No gang is below its quorum: each was preempted whole or not at all",
        all(
            left[gang.name] in {0, *range(gang.members, gang.size + 1)} for gang in EVERYDAY if not gang.alone
        ),
        ", ".join(f"{name} {count}" for name, count in left.items()),
    )
    taken = units(victims)
    spare = sum(taken) - URGENT.members * URGENT.gpus
    stage.claims.check(
        "No victim too many: without any one of them the gang would not fit",
        0 <= spare < min(taken, default=0),
        f"{sum(taken)} GPUs given up for {URGENT.members * URGENT.gpus}",
    )


def units(victims: Sequence[Seen]) -> list[int]:
    """GPUs of what can be taken alone: a pod for itself or above a quorum, else a gang."""
    alone = [victim.gpus for victim in victims if victim.surplus or not victim.together]
    whole: dict[str, int] = {}
    for victim in victims:
        if victim.together and not victim.surplus:
            whole[victim.gang] = whole.get(victim.gang, 0) + victim.gpus
    return [*alone, *whole.values()]


def _table(record: Record, victims: Sequence[Seen]) -> Table:
    table = Table("preempted", "pods", "", box=None)
    for gang in EVERYDAY:
        own = [victim for victim in victims if victim.gang == gang.name]
        if own:
            how = "shrunk" if own[0].surplus else "stopped" if gang.alone else "stopped whole"
            left = f"{len(record.here(gang.name))} run on"
            table.add_row(PALETTE.name(gang.name), f"{len(own)} of {gang.size}", f"{how}; {left}")
    return table


async def _all_back(stage: Stage, nodes: list[Object], record: Record) -> None:
    await record.until(lambda r: _running(r) == ROOM and not r.here(URGENT.name), "all gangs are back")
    _show(stage, nodes, {"AFTER THAT": _picture(record)})
    stage.claims.check(
        "The urgent gang ended, and each preempted gang runs again",
        all(len(record.here(gang.name)) == gang.size for gang in EVERYDAY),
        f"{_running(record)} of {ROOM} GPUs; {ELASTIC.name} has its {ELASTIC.size} learners again",
    )


def _show(stage: Stage, nodes: list[Object], pictures: dict[str, list[Seen]]) -> None:
    row = Table.grid(padding=(0, 1))
    row.add_row(*(panel(by_gpu(nodes, seen, PALETTE), title) for title, seen in pictures.items()), _legend())
    stage.console.print(row)


def _legend() -> Table:
    table = Table.grid()
    for gang in (*EVERYDAY, URGENT):
        table.add_row(PALETTE.name(gang.name), Text(f"  {gang.size} × {gang.gpus}", style="dim"))
    return table


def _picture(record: Record) -> list[Seen]:
    """As it is now, gang by gang on each node."""
    return sorted((replace(seen) for seen in record.present()), key=lambda seen: (seen.gang, seen.surplus))


def _running(record: Record) -> int:
    """GPUs of learners that run."""
    return sum(seen.gpus for seen in record.present() if seen.phase == "Running" and seen.leaving is None)


def _gated(record: Record) -> list[Seen]:
    """Pods that wait for Gangwright."""
    return [seen for seen in record.pods.values() if seen.pod["spec"].get("schedulingGates")]
