"""Act 1: four jobs of four learners on eight GPUs; the plain scheduler gives each of them half, and none ever
ends.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.table import Table
from rich.text import Text

from bench.demo.cast import Gang, learn, submit_interleaved
from bench.demo.claims import check_whole
from bench.demo.palette import Palette
from bench.demo.record import Record, refused
from bench.demo.screen import by_gpu, indented
from bench.demo.stage import Stage
from bench.plane import Fleet, where
from bench.plane.client import Object

FLEET = Fleet(racks=1, nodes_per_rack=2, gpus=4)
JOBS = [Gang(name, members=4, gpus=1) for name in ("anna", "boris", "chen", "dara")]
PALETTE = Palette(job.name for job in JOBS)

TRAINING = 2.0
"""Seconds that four learners train once all four of them run."""

STILL = 2.0
"""Seconds without any change after which the deadlock is shown. As long as the jobs would take."""

SEATED = "gangwright.io/Seated"


async def play(stage: Stage) -> None:
    stage.title("1  Four jobs of four learners, one GPU each, on eight GPUs")
    stage.say("Four people press Enter at once. A job makes no step before its four learners run.\n")
    async with stage.cluster(FLEET) as nodes:
        await _plain(stage, nodes)
        await _whole(stage, nodes)


@asynccontextmanager
async def _learning(stage: Stage, namespace: str, record: Record) -> AsyncIterator[None]:
    """Learners train, and end, once their four are there."""
    task = asyncio.create_task(learn(stage.api, namespace, record, dict.fromkeys(JOBS, TRAINING)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _plain(stage: Stage, nodes: list[Object]) -> None:
    stage.say("[bold]schedulerName: default-scheduler[/]   pod by pod, first come, first served")
    async with stage.namespace("plain") as record, _learning(stage, "plain", record):
        await submit_interleaved(stage.api, "plain", JOBS, "default-scheduler")
        await record.until(
            lambda r: len(refused(seen.pod for seen in r.pods.values())) == 8, "eight learners are refused"
        )
        await asyncio.sleep(STILL)
        pods = await stage.api.items(where("pods", "plain"))
        _show(stage, nodes, record)
        halves = [_bound(pods, job.name) for job in JOBS]
        why = sorted(set(refused(pods).values()))
        stage.say(f"  The other eight: [italic]{why[0]}[/]")
        stage.claims.check(
            "Deadlock: every job has two of its four learners, and will have no more",
            halves == [2, 2, 2, 2] and not any(record.ended(job.name) for job in JOBS),
            f"read from the API after {STILL:g} s without a change: "
            + ", ".join(f"{half}/4" for half in halves),
        )


async def _whole(stage: Stage, nodes: list[Object]) -> None:
    stage.say("\n[bold]schedulerName: gangwright[/]   the same pods, each gang whole or not at all")
    async with stage.namespace("whole") as record:
        await submit_interleaved(stage.api, "whole", JOBS, "gangwright")
        await record.until(lambda r: len(_whole_gangs(r)) == 2, "two gangs run whole")
        first = _whole_gangs(record)
        last = [job.name for job in JOBS if job.name not in first]
        await _waits(stage, nodes, record, last)
        async with _learning(stage, "whole", record):
            await _follows(stage, nodes, record, first, last)
        check_whole(stage.claims, record)


async def _waits(stage: Stage, nodes: list[Object], record: Record, last: list[str]) -> None:
    reasons = {name: await _reason(record, name) for name in last}
    _show(stage, nodes, record)
    for name, reason in reasons.items():
        stage.say(f"  {name} waits; the condition on its pod: [italic]{reason}[/]")
    stage.claims.check(
        "Two gangs run whole, two wait, and their pods say why",
        len(reasons) == 2 and all(record.bound(name) == 0 for name in last),
    )


async def _follows(
    stage: Stage, nodes: list[Object], record: Record, first: list[str], last: list[str]
) -> None:
    await record.until(lambda r: all(r.ended(name) == 4 for name in first), "the first two end")
    freed = max(seen.ended or 0.0 for name in first for seen in record.of(name))
    await record.until(lambda r: len(_whole_gangs(r)) == 4, "the other two follow")
    _show(stage, nodes, record)
    followed = max(record.whole_at(name) for name in last)
    stage.claims.check(
        "When the first two end, the other two start",
        True,
        f"whole {followed - freed:.2f} s after the last end",
    )
    await record.until(lambda r: all(r.ended(job.name) == 4 for job in JOBS), "all four end")
    stage.claims.check(
        "All four jobs have ended",
        all(seen.phase == "Succeeded" for seen in record.pods.values()),
        "16 learners Succeeded",
    )


def _bound(pods: list[Object], job: str) -> int:
    return sum(
        bool(pod["spec"].get("nodeName")) for pod in pods if pod["metadata"]["name"].startswith(f"{job}-")
    )


def _whole_gangs(record: Record) -> list[str]:
    return [job.name for job in JOBS if record.bound(job.name) == job.members]


async def _reason(record: Record, gang: str) -> str:
    """The condition that Gangwright writes on a member of a gang that waits. Raises NeverCameError."""

    def found(seen: Record) -> list[Object]:
        return [
            condition
            for member in seen.of(gang)
            for condition in member.pod["status"].get("conditions", ())
            if condition["type"] == SEATED and condition["status"] == "False"
        ]

    await record.until(found, f"a pod of {gang} says why it waits")
    condition = found(record)[0]
    return f"{condition['reason']}: {condition['message']}"


def _show(stage: Stage, nodes: list[Object], record: Record) -> None:
    table = Table.grid(padding=(0, 3))
    table.add_row(by_gpu(nodes, record.present(), PALETTE), _counts(record))
    stage.console.print(indented(table))


def _counts(record: Record) -> Table:
    table = Table.grid(padding=(0, 2))
    for job in JOBS:
        bound, ended = record.bound(job.name), record.ended(job.name)
        state = (
            "ended"
            if ended == job.members
            else "runs"
            if bound == job.members
            else "stuck"
            if bound
            else "waits"
        )
        table.add_row(
            PALETTE.name(job.name), f"{bound}/{job.members} bound", Text(state, style=STYLES[state])
        )
    return table


STYLES = {"ended": "dim", "runs": "green", "stuck": "bold red", "waits": "yellow"}
