"""The four policies: `offer`, `efficiency`, `utility` and `schedule`. Each proposes a size for one job.

`offer` takes all that is free: min(max, ⌈limit / per worker⌉). Source: ElasticDL ("want N, run with what you get").
Here the scheduler preempts the surplus.

`efficiency` grows as long as additional workers scale. With R_k samples per second at k workers, d more add

    s_{k,d} = (R_{k+d} − R_k) / (d · R_k / k)

relative to what d workers contribute on average now. k + d is preferred if s_{k,d} > S (`threshold`), with d = `step`,
which means R_{k+d} > R_k · (1 + S·d/k). Over several steps the factors are multiplied. So the rule prefers the size
with the largest R_k / Π(1 + S·d/j), whichever way the search took; with small steps that is R_k / k^S.
Source: Or, Zhang, Freedman, "Resource Elasticity in Distributed Deep Learning", MLSys'20, and its code, which compares
only neighbors.

`utility` grows as long as the earlier end is worth more than the workers cost. With D samples left, R_k samples per
second at k workers and P the price of a worker-second,

    T_k = elapsed + D / R_k        time of the end        C_k = P · D · k / R_k        cost from now on

k + d is preferred if U(T_{k+d}) − U(T_k) > C_{k+d} − C_k. U is linear, value · (1 − t / deadline), or piecewise linear
through the points. Before the first point it is constant; after the last it falls with the slope of the last two.
Source: the code of the same paper (`utility.py`). This one counts samples: the paper's b · t_k uses one batch for both
sizes, which is wrong if the batch grows with the workers. Past cost is on both sides and cancels.

`schedule` has a stated size for each phase of the training, `{epoch, workers}`: the workers of the last stage whose
epoch is at most `e`, the epochs done so far. For a stage with more workers than now, that is at most e + lead /
(seconds of an epoch), so that newcomers are warm in time. A phase has no more workers than its batch can use. Before
the first stage the job has its minimum.
Source: static schedules as stated by Goyal et al. 2017 and AdaBatch for the batch, by epoch.
"""

import itertools
import math
from typing import Final

from msgspec.structs import replace

from scheduler.elastic.sizing import proposal, size_search
from scheduler.elastic.sizing.job_view import JobView, Stage
from scheduler.elastic.sizing.policy_parameters import Efficiency, Schedule, Search, Utility
from scheduler.elastic.sizing.proposal import Proposal, clamped, largest, pays


def scaling(size: int, rate: float, larger: int, rate_there: float) -> float:
    """Throughput scaling efficiency from `size` to `larger` workers; 1 is perfect. 400 → 480 samples/s for 4 → 5
    workers is 0.8.
    """
    return (rate_there - rate) * size / (rate * (larger - size))


def needed(policy: Efficiency, size: int, larger: int) -> float:
    """Minimum speedup from `size` to `larger` workers: the product over the steps between them."""
    return math.prod(
        1.0 + policy.threshold * min(policy.step, larger - at) / at for at in range(size, larger, policy.step)
    )


def efficiency(job: JobView) -> Proposal:
    policy = job.parameters if isinstance(job.parameters, Efficiency) else Efficiency()

    def worth(size: int, rate: float, larger: int, rate_there: float) -> float:
        return math.log(rate_there / rate / needed(policy, size, larger))

    return size_search.search(job, policy, worth)


HOUR = 3600.0


def worth_at(policy: Utility, end: float) -> float:
    """U: the value of a job that ends `end` seconds after its first step, in units of money."""
    points = policy.points
    if not points:
        return policy.value * (1.0 - end / policy.deadline)
    if end <= points[0].until or len(points) == 1:
        return points[0].value if end <= points[0].until else 0.0
    lines = (line for line in itertools.pairwise(points) if end <= line[1].until)
    left, right = next(lines, (points[-2], points[-1]))
    return left.value + (right.value - left.value) * (end - left.until) / (right.until - left.until)


def net(policy: Utility, job: JobView, size: int, rate: float) -> float:
    """Utility less future cost, of `size` workers that process `rate` samples per second; `job.remaining` is known."""
    seconds = (job.remaining or 0.0) / rate
    return worth_at(policy, job.elapsed + seconds) - policy.price / HOUR * size * seconds


UNKNOWN: Final = (
    "the remaining work is unknown; the script must report it with gangwright.total(samples) and, at each step, "
    "gangwright.advance(count)"
)


def utility(job: JobView) -> Proposal:
    """If the end is unknown, nothing can be compared, and the job keeps its size."""
    policy = job.parameters if isinstance(job.parameters, Utility) else Utility()
    if job.remaining is None:
        begins = job.held >= job.min and not job.measured
        return Proposal(size=job.size or job.min, reason=UNKNOWN, grain=policy.step, soon=begins)

    def worth(size: int, rate: float, larger: int, rate_there: float) -> float:
        return net(policy, job, larger, rate_there) - net(policy, job, size, rate)

    return size_search.search(job, policy, worth)


FORGET: Final = Search().forget
"""Seconds after which a size that was left counts as unknown; the same default as for policies that search."""


def offer(job: JobView) -> Proposal:
    """As many workers as are useful; no growth that would not win back the cost of the resize."""
    most = largest(job)
    if most > job.size:
        seen = {at: one for at, one in job.measured.items() if at == job.size or one.age <= FORGET}
        job = replace(job, measured=seen)
        expected = proposal.rate(job.measured, most)
        if not pays(job, expected):
            near = pays(replace(job, remaining=None), expected)
            near_end = "the remaining time is too short to win back another resize"
            why = near_end if near else f"{most} workers would not win back the cost of a resize"
            return Proposal(size=min(most, job.held), reason=why)
    return Proposal(size=most, reason="all free capacity" if most == job.max else "the batch is at its limit")


def schedule(job: JobView) -> Proposal:
    done = job.epoch or 0.0
    begun = [stage for stage in job.schedule if stage.epoch <= done]
    now = begun[-1] if begun else Stage(-1.0, job.min)
    coming = next((stage for stage in job.schedule if stage.epoch > now.epoch), None)
    size = min(clamped(job, now.workers), largest(job))
    if coming and coming.epoch <= done + _ahead(job):
        then = min(clamped(job, coming.workers), largest(job, coming))
        if then > size:
            return Proposal(size=then, reason=f"epoch {coming.epoch:g} begins soon", coming=coming)
    place = "its beginning, because no epoch is reported yet" if job.epoch is None else f"epoch {done:g}"
    return Proposal(size=size, reason=f"the schedule at {place}", coming=coming)


def _ahead(job: JobView) -> float:
    """Epochs that pass while newcomers start."""
    lead = job.parameters.lead if isinstance(job.parameters, Schedule) else 0.0
    seconds = lead if job.warm is None else job.warm
    return seconds / job.epoch_s if job.epoch_s else 0.0
