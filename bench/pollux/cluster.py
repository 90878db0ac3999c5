"""The clock of the simulation: jobs arrive, a policy decides every minute, jobs end.

Lives here: time. Never here: a decision.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from bench.pollux.training import Cost, Training
from bench.pollux.workload import GPUS, NODES, Submission

EVERY: Final = 60.0
"""Seconds between two decisions, as published."""

LONGEST: Final = 30 * 86_400.0
"""Seconds after which a simulation has not ended for a fault of its own."""


class OverbookedError(RuntimeError):
    """More workers on a node than it has GPUs."""


class Policy(Protocol):
    """Who decides. `decide` changes the workers of jobs with `Training.placed`."""

    def decide(self, jobs: Sequence[Training], now: float) -> None:
        """jobs: those that have arrived and not ended, in order of arrival."""


def run(jobs: Iterable[Submission], policy: Policy, cost: Cost, every: float = EVERY) -> list[Training]:
    """From the first decision to the last end.  Raises OverbookedError."""
    coming = [Training(job, cost) for job in jobs]
    everyone, here, now = tuple(coming), list[Training](), 0.0
    coming.reverse()
    while coming or here:
        for one in here:
            one.advance(now, every)
        now += every
        if now > LONGEST:
            raise RuntimeError(f"{len(here)} jobs have not ended after {now:.0f} s")
        here = [one for one in here if one.ended is None]
        while coming and coming[-1].job.arrival <= now:
            here.append(coming.pop())
        if here:
            policy.decide(here, now)
            free = free_of(here)
            if min(free) < 0:
                raise OverbookedError(f"node {free.index(min(free))} at {now:.0f} s: {min(free)} GPUs free")
    return list(everyone)


def free_of(jobs: Iterable[Training]) -> list[int]:
    """Free GPUs of each node."""
    free = [GPUS] * NODES
    for job in jobs:
        for node in job.seats:
            free[node] -= 1
    return free
