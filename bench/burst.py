"""A burst of 53 gangs that arrive at once on 32 nodes: when the last one ends, by queue and by order of submission.

Lives here: the queues that are compared, and the random orders. Never here: a decision. The simulator runs the same
engine as the service. The data set is knavigator's benchmark of gang scheduling (bench/data/knavigator-gang53).

    python -m bench.burst --orders 100
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from bench import ending
from bench.queue.cases import FIFO, FREE, QUEUES, SHORTEST, STRICT, Queue
from bench.report import Fate
from bench.simulator import Simulation, some_nodes
from bench.traces import DATA, Job, TraceError, read_burst

JOBS: Final = DATA / "knavigator-gang53" / "jobs.csv"
NODES: Final = 32
RACKS: Final = 4

COMPARED: Final = tuple(queue for queue in QUEUES if queue.name in {STRICT, FREE, FIFO, SHORTEST})
"""Without suspension, which has no use here: all gangs have one runtime."""


def published() -> list[Job]:
    """The gangs in the published order.  Raises TraceError."""
    return read_burst(JOBS)


def shuffled(jobs: Sequence[Job], seed: int) -> list[Job]:
    """The same gangs in another order. The queue orders gangs of one time of submission by their names."""
    line = list(jobs)
    random.Random(seed).shuffle(line)
    return [replace(job, name=f"{place:03d}-{job.name}") for place, job in enumerate(line)]


def ideal(jobs: Sequence[Job], nodes: int = NODES) -> float:
    """Seconds that no scheduler can beat: all work, evenly on all nodes."""
    return sum(job.members * job.runtime for job in jobs) / nodes


def run(queue: Queue, jobs: Sequence[Job]) -> list[Fate]:
    """What became of each gang."""
    return Simulation(queue.stated(jobs), some_nodes(NODES, racks=RACKS), queue.policy).run()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds. One queue and one order of submission. seed: None is the published order."""

    queue: str
    seed: int | None
    makespan: float
    wait: float


def outcome(queue: Queue, seed: int | None) -> Outcome:
    """The makespan and the mean wait."""
    jobs = published()
    fates = run(queue, jobs if seed is None else shuffled(jobs, seed))
    wait = sum(fate.first_start for fate in fates) / len(fates)
    return Outcome(queue.name, seed, max(fate.ended for fate in fates), wait)


def main(
    *, orders: Annotated[int, typer.Option(min=0, help="Random orders besides the published one.")] = 10
) -> None:
    """Makespan and mean wait in seconds, one line of JSON for each queue and order of submission."""
    for queue in COMPARED:
        for seed in (None, *range(orders)):
            own = outcome(queue, seed)
            print(json.dumps({name: getattr(own, name) for name in own.__slots__}), flush=True)


if __name__ == "__main__":
    ending.run(lambda: typer.run(main), TraceError)
