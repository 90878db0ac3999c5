"""What elastic jobs say of themselves: their status, by a watch of its own, and the steps that their workers printed.

Lives here: what was said, and the figures that follow from it. Never here: what should have been said.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise

from bench.plane import Client, watches, where
from bench.plane.client import Object

JOBS = "gangwright.io/v1alpha1/elasticjobs"
SAMPLES = 1500
"""Of an epoch, in the training script."""


@dataclass(frozen=True)
class Resize:
    """A change of a job's size as its status told it."""

    before: int
    after: int
    cause: str
    idle: float | None
    """Seconds in which it made no step; None: not told yet."""
    round: int


@dataclass
class History:
    """Every status of every job of a namespace, in order."""

    statuses: dict[str, list[Object]] = field(default_factory=dict)

    def last(self, job: str) -> Object:
        found: Object = self.statuses.get(job, [{}])[-1]
        return found

    def resizes(self, job: str) -> list[Resize]:
        """In order; of each what was told last."""
        told: dict[str, Resize] = {}
        for status in self.statuses.get(job, ()):
            if last := status.get("lastResize"):
                number = told[last["at"]].round if last["at"] in told else status["round"]
                told[last["at"]] = Resize(
                    last["from"], last["to"], last["cause"], last.get("idleSeconds"), number
                )
        return list(told.values())

    async def follow(self, stream: AsyncIterator[watches.Change]) -> None:
        async for _, job in stream:
            self.statuses.setdefault(job["metadata"]["name"], []).append(job.get("status", {}))


@asynccontextmanager
async def told(api: Client, namespace: str) -> AsyncIterator[History]:
    """Watches the elastic jobs of a namespace for as long as the block runs."""
    history = History()
    task = asyncio.create_task(history.follow(watches.changes(api, where(JOBS, namespace))))
    try:
        yield history
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# ── steps, as every worker prints them: {step, size, batch, epoch, at, pod, …} ──────────────────────────────


def of_all(steps: Iterable[Object], *, ended: bool) -> list[list[Object]]:
    """Step by step what every worker said of it, from the first to the last. ended: else the last may be in the
    making.
    """
    by_number: dict[int, list[Object]] = {}
    for step in steps:
        by_number.setdefault(step["step"], []).append(step)
    whole = [by_number[number] for number in sorted(by_number)]
    return whole if ended else whole[:-1]


def flaws(steps: Sequence[Sequence[Object]]) -> list[str]:
    """What is lost or repeated in steps that are sorted by `of_all`: steps, workers, samples."""
    found: list[str] = []
    samples = 0
    for number, said in enumerate(steps, 1):
        first = said[0]
        samples += first["batch"]
        if first["step"] != number:
            return [*found, f"step {number} is missing"]
        if len({one["pod"] for one in said}) != len(said) or any(one["size"] != len(said) for one in said):
            found.append(f"step {number} was made by {len(said)} workers of {first['size']}")
        if round(first["epoch"] * SAMPLES) != samples:
            found.append(
                f"after step {number} {samples} samples were used, {first['epoch'] * SAMPLES:.0f} said"
            )
    return found


def rates(steps: Sequence[Sequence[Object]]) -> dict[int, float]:
    """Size → samples a second, over the time in which it had that size without a break; the first step of each is
    its begin.
    """
    spent: dict[int, float] = {}
    made: dict[int, int] = {}
    for before, after in pairwise(steps):
        size = before[0]["size"]
        if size == after[0]["size"]:
            spent[size] = spent.get(size, 0.0) + _at(after) - _at(before)
            made[size] = made.get(size, 0) + after[0]["batch"]
    return {size: made[size] / spent[size] for size in made if spent[size] > 0}


def sizes(steps: Sequence[Sequence[Object]]) -> list[int]:
    """The sizes it had, in order."""
    every = [said[0]["size"] for said in steps]
    return every[:1] + [after for before, after in pairwise(every) if after != before]


def begun(steps: Iterable[Object]) -> dict[str, float]:
    """Pod → when it made its first step, in seconds since the epoch."""
    first: dict[str, float] = {}
    for step in steps:
        first[step["pod"]] = min(step["at"], first.get(step["pod"], step["at"]))
    return first


def _at(said: Sequence[Object]) -> float:
    return min(float(one["at"]) for one in said)
