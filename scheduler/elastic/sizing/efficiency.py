"""The policy `efficiency`: grow as long as additional workers scale.

The formula: with R_k samples per second at k workers, the throughput scaling efficiency of d more is

    s_{k,d} = (R_{k+d} − R_k) / (d · R_k / k)

what they add, relative to what d workers give on average now. k + d is worth it where s_{k,d} > S (`threshold`), with d
= `step`; that is R_{k+d} > R_k · (1 + S·d/k). Over several steps at once all of them must be, so the factors are
multiplied. Then the rule prefers the size with the largest R_k / Π(1 + S·d/j), whichever way the search came; with
small steps that is R_k / k^S.
Source: Or, Zhang, Freedman, "Resource Elasticity in Distributed Deep Learning", MLSys'20, and its code, which compares
neighbours alone.
"""

import math

from scheduler.elastic.sizing import search
from scheduler.elastic.sizing.desire import Desire
from scheduler.elastic.sizing.parameters import Efficiency
from scheduler.elastic.sizing.view import JobView


def scaling(size: int, rate: float, larger: int, rate_there: float) -> float:
    """Throughput scaling efficiency from `size` to `larger` workers; 1 is perfect. 400 → 480 samples/s for 4 → 5
    give 0.8.
    """
    return (rate_there - rate) * size / (rate * (larger - size))


def needed(policy: Efficiency, size: int, larger: int) -> float:
    """By which factor `larger` workers must be faster than `size` to be worth it: every step on the way just is."""
    return math.prod(
        1.0 + policy.threshold * min(policy.step, larger - at) / at for at in range(size, larger, policy.step)
    )


def desire(job: JobView) -> Desire:
    policy = job.parameters if isinstance(job.parameters, Efficiency) else Efficiency()

    def worth(size: int, rate: float, larger: int, rate_there: float) -> float:
        return math.log(rate_there / rate / needed(policy, size, larger))

    return search.desire(job, policy, worth)
