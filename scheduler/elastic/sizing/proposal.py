"""A policy's proposal for one job, before free capacity is divided, and the rules that all policies share.

Lives here: `Proposal`, the largest useful size, the expected throughput, and whether a growth wins back its cost. Never
here: other jobs.
Throughput at a size that was not tried is interpolated linearly between the measured sizes. Outside of them a job is
assumed to scale perfectly until it does not (the prior of Pollux, OSDI'21, §4.3), and beyond two sizes as between the
last two.
"""

import itertools
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from scheduler.elastic.sizing.job_view import JobView, Measured, Stage


def rate(measured: Mapping[int, Measured], size: int) -> float:
    """Expected samples per second of `size` workers, above 0; in units of one worker's if nothing was measured."""
    if size in measured:
        return measured[size].mean
    known = sorted(measured)
    if not known:
        return float(size)
    if size < known[0]:
        return measured[known[0]].mean * size / known[0]
    for low, high in itertools.pairwise(known):
        if size < high:
            # A weighted mean: subtracting a slope from a large rate may leave nothing of a small one.
            part = (size - low) / (high - low)
            return measured[low].mean * (1.0 - part) + measured[high].mean * part
    last = known[-1]
    perfect = measured[last].mean / last
    if len(known) == 1:
        return perfect * size
    slope = (measured[last].mean - measured[known[-2]].mean) / (last - known[-2])
    return measured[last].mean + min(max(slope, 0.0), perfect) * (size - last)


IDLE: Final = 1.0
"""Assumed seconds without a step of a job's first resize. A warm join takes 0.15 to 0.5 s; a large model must be sent
to the newcomers."""


class Proposal(Struct, frozen=True, kw_only=True):
    """The size that a policy proposes."""

    size: int
    reason: str
    grain: int = 1
    """Number of workers by which it grows at a time, or not at all."""
    coming: Stage | None = None
    soon: bool = False
    """It waits for a measurement within seconds, and may change then."""


def largest(job: JobView, stage: Stage | None = None) -> int:
    """The size beyond which another worker is of no use: the maximum, or where the batch is at its limit.

    stage: a future phase, with its own batch if it has one.

    Beyond that size every worker takes fewer samples of a step, for as many bytes to exchange (MLSys'20: "global =
    min(k·max_local, max_global)").
    """
    batch = job if stage is None or stage.per_worker is None else stage
    if batch.batch_limit is None or batch.per_worker is None:
        return job.max
    return clamped(job, -(-batch.batch_limit // batch.per_worker))


def clamped(job: JobView, size: int) -> int:
    return max(job.min, min(size, job.max))


def idle(job: JobView) -> float:
    """Seconds without a step that the next resize is expected to cost."""
    return IDLE if job.idle is None else job.idle


def left(job: JobView, speed: float) -> float:
    """Seconds for which a resize now is useful: the horizon, or the remaining time at this speed in samples per second.

    Excludes the time in which newcomers start, while the members continue as they are.
    """
    warm = job.warm or 0.0
    most = job.parameters.horizon - warm
    if job.remaining is not None and job.measured:
        now = rate(job.measured, max(1, job.size))
        most = min(most, (job.remaining - warm * now) / speed)
    return max(0.0, most)


def pays(job: JobView, expected: float) -> bool:
    """Whether growing to `expected` samples per second wins back the steps that the resize costs.

    (R' − R)·H > R·idle, where H is the number of seconds for which the new size is useful. If H is the remaining time,
    this means that the job ends earlier. A job that does not train yet has nothing to lose.
    """
    if not job.size:
        return True
    now = rate(job.measured, job.size)
    return (expected - now) * left(job, expected) > now * idle(job)
