"""One queue on one cluster, from the first job to the last."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bench.queue.cases import Cluster, Queue
from bench.report import Fate, Report
from bench.simulator import Simulation, some_nodes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of every job of one run."""

    cluster: str
    queue: str
    report: Report
    fates: tuple[Fate, ...]
    seconds: float
    """That it took here."""

    def line(self) -> dict[str, Any]:
        """What is printed of it; times are hours."""
        return {
            "cluster": self.cluster,
            "queue": self.queue,
            "jobs": len(self.fates),
            **self.report.as_json(),
            "jobs_a_second": round(len(self.fates) / max(self.seconds, 1e-9)),
        }


def run(cluster: Cluster, queue: Queue, first: int | None = None) -> Result:
    """first: only so many jobs of the trace."""
    jobs = queue.stated([replace(job, suspends=queue.suspends) for job in cluster.jobs()[:first]])
    began = time.perf_counter()
    fates = Simulation(jobs, some_nodes(cluster.nodes), queue.policy).run()
    took = time.perf_counter() - began
    return Result(cluster.name, queue.name, Report.of(fates, cluster.gpus), tuple(fates), took)


def run_all(
    clusters: Sequence[Cluster], queues: Sequence[Queue], *, first: int | None = None, workers: int = 1
) -> Iterator[Result]:
    """All queues on all clusters, in the order of the tables, as they are done."""
    cases = [(cluster, queue) for cluster in clusters for queue in queues]
    if cases:
        yield from in_order(run, [*zip(*cases, strict=True), [first] * len(cases)], workers)


def in_order(work: Callable[..., T], columns: Sequence[Sequence[Any]], workers: int) -> Iterator[T]:
    """What comes of the work on each row of arguments, so many at a time, each in a process of its own."""
    if workers <= 1:
        yield from map(work, *columns)
        return
    pool = ProcessPoolExecutor(workers, initializer=_mortal)
    try:
        with put_off(signal.SIGTERM):
            found = pool.map(work, *columns)
        yield from found
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        # A run takes minutes, and nobody waits for it any more. Not SIGTERM: who was just forked does not mind it yet.
        for child in multiprocessing.active_children():
            child.kill()
        raise
    pool.shutdown()


@contextmanager
def put_off(number: signal.Signals) -> Iterator[None]:
    """What is done at this signal is done at the end: what it raises inside a fork would be printed, and forgotten.

    Not by a mask: a thread of numpy's takes the signal then, and Python's handler runs in this one all the same.
    """
    came: list[int] = []
    before = signal.signal(number, lambda found, _frame: came.append(found))
    try:
        yield
    finally:
        signal.signal(number, before)
        if came:
            signal.raise_signal(number)


def _mortal() -> None:
    """What this process does when it is told to end is not what those that it forks do."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
