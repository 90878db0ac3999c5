"""Every policy on every seed: Gangwright through its engine, and the list schedulers beside it."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.queue.running import in_order
from bench.report import Fate
from bench.simulator import Simulation
from bench.tetris import peers, tasks
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order
from scheduler.model.workload import Strategy

STRATEGIES: Final = (Strategy.PACK, Strategy.COSINE)
BLOCKING, TETRIS = "FIFO that blocks, first node", "Tetris' rule"


def _named(order: Order, backfill: Backfill, strategy: Strategy) -> str:
    return f"{order}, {backfill}, {strategy}"


POLICIES: Final = {
    _named(order, backfill, strategy): Policy(order=order, backfill=backfill, strategy=strategy)
    for order in (Order.FIFO, Order.FIT)
    for backfill in Backfill
    for strategy in STRATEGIES
}
"""Gangwright's settings by name: order, backfill, strategy. All other settings are the defaults."""

FIT: Final = _named(Order.FIT, Backfill.RESERVE, Strategy.PACK)
"""All defaults but the order."""
FIFO: Final = _named(Order.FIFO, Backfill.RESERVE, Strategy.PACK)
"""The defaults."""

NAMES: Final = (*peers.RULES, *POLICIES)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one policy made of the tasks of one seed, in seconds."""

    makespan: float
    """From the time 0, at which arrivals begin, to the last end."""
    completion: float
    """Mean over the jobs: from the arrival to the end of the last task."""
    longest: float
    """The longest wait of a task."""

    @classmethod
    def of(cls, fates: Sequence[Fate]) -> "Outcome":
        ends: dict[str, float] = {}
        arrivals: dict[str, float] = {}
        for fate in fates:
            job = tasks.job_of(fate.job)
            ends[job] = max(ends.get(job, 0.0), fate.ended)
            arrivals[job] = fate.job.arrival
        completion = statistics.fmean(ends[job] - arrivals[job] for job in ends)
        return cls(max(ends.values()), completion, max(fate.wait for fate in fates))


def run(name: str, seed: int) -> Outcome:
    """name: one of NAMES."""
    some = tasks.tasks(seed)
    if name in peers.RULES:
        return Outcome.of(peers.run(some, peers.RULES[name]))
    return Outcome.of(Simulation(some, tasks.nodes(), POLICIES[name]).run())


def run_all(seeds: Sequence[int], workers: int, names: Sequence[str] = NAMES) -> dict[str, list[Outcome]]:
    """The outcomes of each policy, one per seed."""
    found: Iterator[Outcome] = in_order(
        run, list(zip(*itertools.product(names, seeds), strict=True)), workers
    )
    return {name: list(itertools.islice(found, len(seeds))) for name in names}
