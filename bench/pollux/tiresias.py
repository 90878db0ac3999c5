"""Tiresias as Pollux's authors ran it: rigid gangs of the size that the user tuned, preempted by attained service.

Lives here: the policy of `simulator/tiresias.py` in branch osdi21-artifact of petuum/adaptdl. A job begins in the first
queue and moves to the second one after `THRESHOLD` GPU-seconds, for good. Within a queue the order of entry counts.
Those that fit the cluster in this order run, and a job that does not fit lets smaller ones pass. A job gets GPUs of the
node with the most free ones, repeatedly.
"""

from collections.abc import Sequence
from typing import Final

from bench.pollux.cluster import free_of
from bench.pollux.training import Training
from bench.pollux.workload import GPUS, NODES

THRESHOLD: Final = 16 * 3600.0


class Tiresias:
    """Keeps the second queue."""

    def __init__(self) -> None:
        self._second: list[Training] = []

    def decide(self, jobs: Sequence[Training], now: float) -> None:
        """jobs: in order of arrival."""
        running = {id(job) for job in jobs if job.seats}
        demoted = [
            job
            for job in jobs
            if job not in self._second and id(job) in running and job.attained >= THRESHOLD
        ]
        self._second = [job for job in (*self._second, *demoted) if job.ended is None]
        order = [*(job for job in jobs if job not in self._second), *self._second]
        left, chosen = NODES * GPUS, []
        for job in order:
            if job.job.replicas <= left:
                left -= job.job.replicas
                chosen.append(job)
            elif job.seats:
                job.placed((), now)
        free = free_of(jobs)
        for job in chosen:
            if not job.seats:
                job.placed(_seats(free, job.job.replicas), now)


def _seats(free: list[int], count: int) -> list[int]:
    """Takes so many of the free GPUs."""
    seats = list[int]()
    while len(seats) < count:
        node = max(range(len(free)), key=lambda place: free[place])
        here = min(free[node], count - len(seats))
        seats += [node] * here
        free[node] -= here
    return seats
