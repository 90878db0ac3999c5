"""Starts that were foretold at submission, held against those that came true.

The queue is `fifo` with backfill; every owner states a runtime between half of the truth and twice the truth. A gang
is asked about once, in the moment of its submission, and counts if it waited long enough for a person to ask. Here
the whole queue is forecast, where the service stops at its first `LONGEST` gangs; those are also told by themselves.
"""

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.queue import cases
from bench.queue.cases import Cluster
from bench.queue.running import in_order
from bench.simulator import Simulation, some_nodes
from bench.traces import Job
from scheduler.engine.explanation import BUDGET, LONGEST, foresee
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Estimate, Order
from scheduler.model.workload import GangKey

POLICY: Final = Policy(order=Order.FIFO, backfill=Backfill.RESERVE)

EACH: Final = BUDGET // LONGEST
"""Questions for each gang of the queue, as the service has them."""

LEAST: Final = 600.0
"""Seconds of waiting below which nobody asks."""

COVERAGE: Final = (0.75, 0.90)
"""How many of the starts the interval, which is to hold four of five, may cover."""

ERROR: Final = 0.30
"""The most that the middle may be off, as a part of the wait, for half of the gangs."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """One gang: what was said in the moment of its submission (None: nothing), and what came true. Trace seconds."""

    job: Job
    said: Estimate | None
    started: float
    place: int = 0
    """How many stood before it in the queue."""

    @property
    def wait(self) -> float:
        return self.started - self.job.arrival

    @property
    def covered(self) -> bool:
        return self.said is not None and self.said.low <= self.started <= self.said.high

    @property
    def error(self) -> float:
        """How far the middle was off, as a part of the wait; all of it where nothing was said."""
        return abs(self.said.middle - self.started) / self.wait if self.said is not None else 1.0


@dataclass(frozen=True, slots=True)
class Foresight:
    """All forecasts of one run, of gangs that waited for at least `LEAST`."""

    cluster: str
    found: tuple[Foretold, ...]
    asked: int
    """Forecasts made, also those for gangs that then hardly waited."""
    each: float
    """Seconds that one took here, on average."""

    def line(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            **figures(self.found),
            "in_reach": figures([one for one in self.found if one.place < LONGEST]),
            "asked": self.asked,
            "each_ms": round(1000 * self.each, 2),
        }


def figures(found: Sequence[Foretold]) -> dict[str, Any]:
    """Shares of the gangs, and the median of the errors; nothing of nobody."""
    if not found:
        return {"gangs": 0}
    said = [one for one in found if one.said is not None]
    return {
        "gangs": len(found),
        "coverage": round(sum(one.covered for one in found) / len(found), 3),
        "earlier": round(sum(one.started < one.said.low for one in said if one.said) / len(found), 3),
        "later": round(sum(one.started > one.said.high for one in said if one.said) / len(found), 3),
        "unsaid": len(found) - len(said),
        "median_error": round(statistics.median(one.error for one in found), 3),
    }


def summary(runs: Sequence[Foresight]) -> dict[str, Any]:
    """The last line: all clusters together, and which bars are missed by which."""
    every = {run.cluster: figures(run.found) for run in runs}
    every["all"] = figures([one for run in runs for one in run.found])
    return {
        "coverage": {name: row["coverage"] for name, row in every.items() if row["gangs"]},
        "median_error": {name: row["median_error"] for name, row in every.items() if row["gangs"]},
        "bars": {"coverage": list(COVERAGE), "median_error": ERROR},
        "missed": [missed for name, row in every.items() if row["gangs"] for missed in _missed(name, row)],
    }


def _missed(name: str, row: dict[str, Any]) -> Iterator[str]:
    if not COVERAGE[0] <= row["coverage"] <= COVERAGE[1]:
        yield f"coverage_{name}"
    if row["median_error"] > ERROR:
        yield f"median_error_{name}"


def run(cluster: Cluster, first: int | None = None, share: float | None = None) -> Foresight:
    """first: only so many jobs.  share: of the jobs that wait, how many are asked about, where not the cluster's own."""
    share = cluster.asked if share is None else share
    jobs = cases.noisy(cluster.jobs()[:first])
    simulation = Simulation(jobs, some_nodes(cluster.nodes), POLICY)
    chance = random.Random(cases.SEED)
    said: dict[str, tuple[Estimate | None, int]] = {}
    spent = 0.0
    while not simulation.done:
        simulation.step()
        waiting = [run.job for run in simulation.newcomers if run.started is None]
        chosen = [job for job in waiting if chance.random() < share]
        if chosen:
            began = time.perf_counter()
            seen = simulation.engine.outlook(simulation.now, len(simulation.engine.ledger.pending))
            starts = foresee(seen, EACH * max(len(seen.waiting), LONGEST))
            spent += time.perf_counter() - began
            places = {own.gang.key: place for place, own in enumerate(seen.waiting)}
            keys = {job.name: GangKey(job.namespace, job.name) for job in chosen}
            said |= {name: (starts.get(key), places.get(key, 0)) for name, key in keys.items()}
    fates = [fate for fate in simulation.fates if fate.job.name in said and fate.first_start >= LEAST]
    found = tuple(
        Foretold(fate.job, said[fate.job.name][0], fate.started, said[fate.job.name][1]) for fate in fates
    )
    return Foresight(cluster.name, found, len(said), spent / max(1, len(said)))


def run_all(
    clusters: Sequence[Cluster], *, first: int | None = None, share: float | None = None, workers: int = 1
) -> Iterator[Foresight]:
    """All clusters, in the order given, as they are done."""
    count = len(clusters)
    yield from in_order(run, [clusters, [first] * count, [share] * count], workers)
