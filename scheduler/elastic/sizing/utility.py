"""The policy `utility`: grow as long as the earlier end is worth more than the workers cost.

The formula: with D samples left, R_k samples per second at k workers and P the price of a worker-second,

    T_k = elapsed + D / R_k        when it would end        C_k = P · D · k / R_k        what that costs from here

and k + d is worth it where U(T_{k+d}) − U(T_k) > C_{k+d} − C_k. U is either linear, value · (1 − t / deadline), or goes
through the points, joined by lines; before the first point it is as at the first, after the last it goes on falling as
between the last two.
Source: the authors' code of "Resource Elasticity in Distributed Deep Learning", MLSys'20 (`utility.py`). Here in
samples: their b · t_k takes one batch for both sizes, which is wrong while the batch grows with the workers. What was
spent so far is in both sides and falls out.
"""

import itertools
from typing import Final

from scheduler.elastic.sizing import search
from scheduler.elastic.sizing.desire import Desire
from scheduler.elastic.sizing.parameters import Point, Utility
from scheduler.elastic.sizing.view import JobView

HOUR = 3600.0


def worth_at(policy: Utility, end: float) -> float:
    """U: the worth of a job that ends `end` seconds after its first step, in units of money."""
    if not policy.points:
        return policy.value * (1.0 - end / policy.deadline)
    return _joined(policy.points, end)


def net(policy: Utility, job: JobView, size: int, rate: float) -> float:
    """Utility less cost from here on, of `size` workers that do `rate` samples per second; `job.remaining` is known."""
    seconds = (job.remaining or 0.0) / rate
    return worth_at(policy, job.elapsed + seconds) - policy.price / HOUR * size * seconds


UNKNOWN: Final = (
    "what is left to do is not known; the script tells it by gangwright.total(samples) and, at each step, "
    "gangwright.advance(count)"
)


def desire(job: JobView) -> Desire:
    """Without an end in sight there is nothing to weigh: the job keeps its size."""
    policy = job.parameters if isinstance(job.parameters, Utility) else Utility()
    if job.remaining is None:
        begins = job.held >= job.min and not job.measured
        return Desire(size=job.size or job.min, reason=UNKNOWN, grain=policy.step, soon=begins)

    def worth(size: int, rate: float, larger: int, rate_there: float) -> float:
        return net(policy, job, larger, rate_there) - net(policy, job, size, rate)

    return search.desire(job, policy, worth)


def _joined(points: tuple[Point, ...], end: float) -> float:
    if end <= points[0].until or len(points) == 1:
        return points[0].value if end <= points[0].until else 0.0
    for left, right in itertools.pairwise(points):
        if end <= right.until:
            return _between(left, right, end)
    return _between(points[-2], points[-1], end)


def _between(left: Point, right: Point, end: float) -> float:
    return left.value + (right.value - left.value) * (end - left.until) / (right.until - left.until)
