"""A second, much simpler simulator of rigid jobs, that knows nothing of the engine: what the first is held against.

One pod takes the fullest node that has room, the first by name among equals; a job of several pods takes as many
whole nodes. Jobs start in order of arrival; with `backfill` whoever fits may start past those who do not.
"""

import heapq
from collections.abc import Sequence

from bench.traces import GPUS, Job


def starts(jobs: Sequence[Job], nodes: int, *, backfill: bool) -> dict[str, float]:
    """When each job starts, by its name."""
    free = [GPUS] * nodes
    ends: list[tuple[float, int, list[int]]] = []
    waiting: list[Job] = []
    started: dict[str, float] = {}
    coming = sorted(jobs, key=lambda job: job.arrival)
    while coming or waiting:
        now = min([job.arrival for job in coming[:1]] + [end[0] for end in ends[:1]])
        while ends and ends[0][0] <= now:
            _, gpus, rows = heapq.heappop(ends)
            for row in rows:
                free[row] += gpus
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        for job in list(waiting):
            rows = _seats(job, free)
            if rows is None:
                if backfill:
                    continue
                break
            for row in rows:
                free[row] -= job.gpus
            heapq.heappush(ends, (now + job.runtime, job.gpus, rows))
            started[job.name] = now
            waiting.remove(job)
    return started


def _seats(job: Job, free: Sequence[int]) -> list[int] | None:
    rows = sorted((left, row) for row, left in enumerate(free) if left >= job.gpus)
    return [row for _, row in rows[: job.members]] if len(rows) >= job.members else None
