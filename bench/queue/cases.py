"""Which clusters, and which queues: two tables.

The clusters are three virtual clusters of Microsoft's Philly traces, on as many nodes as keep half of their GPUs
busy: fewer, and every queue grows without end; more, and nobody waits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench import traces
from bench.traces import Job
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order

SEED: Final = 20_190_710
"""Of the noise on stated runtimes; any would do."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A virtual cluster and the nodes, of eight GPUs each, that its jobs are run on."""

    name: str
    nodes: int
    asked: float = 1.0
    """Of the gangs that wait, how many are asked about their start; which, chance says. Every question runs the whole
    queue forward, and thousands stand in the longest: all of them would take days.
    """

    @property
    def gpus(self) -> int:
        return self.nodes * traces.GPUS

    def jobs(self) -> list[Job]:
        return traces.read_philly(traces.DATA / "philly-gangs" / f"vc_{self.name}.csv")


CLUSTERS: Final = (Cluster("b436b2", 12, asked=0.02), Cluster("6c71a0", 10, asked=0.3), Cluster("2869ce", 10))
CROWDED: Final = "b436b2"
"""The one with most jobs in the queue: there an order can win or lose most."""


def silent(jobs: Sequence[Job]) -> list[Job]:
    """Nobody states a runtime."""
    return list(jobs)


def noisy(jobs: Sequence[Job]) -> list[Job]:
    """Everybody states one between half of the truth and twice the truth."""
    return traces.guessing(jobs, SEED)


@dataclass(frozen=True, slots=True)
class Queue:
    """An order with its backfill, and what owners state of their runtimes."""

    name: str
    policy: Policy
    stated: Callable[[Sequence[Job]], list[Job]] = silent
    suspends: bool = False
    """Jobs may be suspended and go on later."""


def _policy(order: Order, backfill: Backfill) -> Policy:
    return Policy(order=order, backfill=backfill)


STRICT: Final = "strict"
FREE: Final = "free"
FIFO: Final = "fifo"
LAS: Final = "las"
SHORTEST: Final = "shortest"
NOISY: Final = "shortest-noisy"

QUEUES: Final = (
    Queue(STRICT, _policy(Order.FIFO, Backfill.NONE)),
    Queue(FREE, _policy(Order.FIFO, Backfill.FREE)),
    Queue(FIFO, _policy(Order.FIFO, Backfill.RESERVE), traces.declaring),
    Queue(LAS, _policy(Order.LAS, Backfill.RESERVE), suspends=True),
    Queue(SHORTEST, _policy(Order.SHORTEST, Backfill.RESERVE), traces.declaring),
    Queue(NOISY, _policy(Order.SHORTEST, Backfill.RESERVE), noisy),
)
"""The settings are the product's defaults in all but order and backfill, and the same for every cluster."""
