"""What one policy proposes for one job, before the free capacity is divided; and what every policy goes by.

Lives here: `Proposal`, the largest useful size, the expected throughput, and whether a growth wins back its cost. Never
here: other jobs.
Throughput at a size that was not tried lies on straight lines between the measured sizes. Outside them a job scales
perfectly until it was seen not to (the prior of Pollux, OSDI'21, §4.3), and beyond two sizes as between the last two.
"""

import itertools
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from scheduler.elastic.sizing.job_view import JobView, Measured, Stage


def rate(measured: Mapping[int, Measured], size: int) -> float:
    """Expected samples per second of `size` workers, above 0; in units of one worker's while nothing was measured."""
    if size in measured:
        return measured[size].mean
    known = sorted(measured)
    if not known:
        return float(size)
    if size < known[0]:
        return measured[known[0]].mean * size / known[0]
    for low, high in itertools.pairwise(known):
        if size < high:
            # As a mean by weight: what a slope takes off a large rate may leave nothing of a small one.
            part = (size - low) / (high - low)
            return measured[low].mean * (1.0 - part) + measured[high].mean * part
    last = known[-1]
    perfect = measured[last].mean / last
    if len(known) == 1:
        return perfect * size
    slope = (measured[last].mean - measured[known[-2]].mean) / (last - known[-2])
    return measured[last].mean + min(max(slope, 0.0), perfect) * (size - last)


IDLE: Final = 1.0
"""Seconds without a step that a job's first resize is taken to cost. A warm join takes 0.15 to 0.5 s; a large model
must be sent to the newcomers."""


class Proposal(Struct, frozen=True, kw_only=True):
    """The size that a policy would like."""

    size: int
    reason: str
    grain: int = 1
    """It grows by so many workers at a time, or not at all."""
    coming: Stage | None = None
    soon: bool = False
    """It waits for what is known within seconds, and will like something else then."""


def largest(job: JobView, stage: Stage | None = None) -> int:
    """The size from which on another worker is of no use: the maximum, or where the batch is at its limit.

    stage: a phase to come, by its own batch where it has one.

    Beyond it every worker would take fewer samples of a step, for as many bytes to exchange (MLSys'20: "global =
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
    """Seconds that a resize of now would be of use: the horizon, or what is left to do at so many samples per second.

    Not those in which newcomers only start, and the members go on as they are.
    """
    warm = job.warm or 0.0
    most = job.parameters.horizon - warm
    if job.remaining is not None and job.measured:
        now = rate(job.measured, max(1, job.size))
        most = min(most, (job.remaining - warm * now) / speed)
    return max(0.0, most)


def pays(job: JobView, expected: float) -> bool:
    """Whether growing to where `expected` samples per second are wins back the steps that the resize costs.

    (R' − R)·H > R·idle, with the seconds H that the new size is of use. Where they are what is left to do, that is: the
    job ends earlier. A job that does not train yet has nothing to lose.
    """
    if not job.size:
        return True
    now = rate(job.measured, job.size)
    return (expected - now) * left(job, expected) > now * idle(job)
