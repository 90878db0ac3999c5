"""The search that `efficiency` and `utility` share: try larger sizes while they are worth it, then settle between.

Lives here: which size to try next, from what was measured so far. Never here: what is worth it; that is the policy's
rule, a function (from size, rate; to size, rate) → above 0 where the second is to be preferred. Why so: MLSys'20 goes
through the sizes one after the other. Trying by doubling, then halving the gap around the best, finds the same size in
a number of trials that grows with the logarithm; `stride: 1` is their way.

A comparison counts when it holds at the worse ends of both confidence intervals, R_a·(1 + z·e_a/√2) and R_b·(1 −
z·e_b/√2) with the relative standard errors e: one-sided, at z standard errors of the ratio where both are alike. While
it holds at one end and not at the other the job stays where it is, so noise alone moves nobody.
"""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from scheduler.elastic.sizing.desire import Desire, idle, largest, left, pays
from scheduler.elastic.sizing.parameters import Search
from scheduler.elastic.sizing.view import JobView, Measured

Worth: TypeAlias = Callable[[int, float, int, float], float]
"""(a, samples/s at a, b, samples/s at b) → above 0 when b, the larger, is worth its workers."""

Known: TypeAlias = dict[int, Measured]

LAST: Final = 10.0
"""A smaller size is not tried in the time of the last ten resizes: what it could save is less than the way there."""


def desire(job: JobView, policy: Search, worth: Worth) -> Desire:
    """The size to try next, or the best one of those that are known."""
    if not job.size:
        return Desire(size=job.min, reason="the minimum, to begin with", grain=policy.step)
    most = _on_grid(job, policy, largest(job))
    if job.size > most:
        return Desire(size=most, reason=f"more than {most} are of no use", grain=policy.step)
    known = _known(job, policy, most)
    if job.size not in known:
        return Desire(size=job.size, reason=f"measuring {job.size} workers", grain=policy.step)
    best = _best(job, policy, worth, known)
    trial = _trial(job, policy, worth, known, best, most)
    if trial is not None:
        return Desire(size=trial, reason=f"best so far {best}, trying {trial}", grain=policy.step)
    return Desire(size=best, reason=_settled(job, known, best), grain=policy.step)


def _settled(job: JobView, known: Known, best: int) -> str:
    return f"the best of {', '.join(map(str, known))} workers: {best}, {known[best].mean:.4g} {job.unit}/s"


def _known(job: JobView, policy: Search, most: int) -> Known:
    """Sizes that were measured well enough, and not too long ago, in order."""
    return {
        size: seen
        for size, seen in sorted(job.measured.items())
        if job.min <= size <= most
        and seen.count >= policy.samples - _FADED
        and (size == job.size or seen.age <= policy.forget)
    }


_FADED = 0.1
"""What a few measurements lose of their weight by their age while they are taken."""


def _clear(policy: Search, worth: Worth, known: Known, a: int, b: int) -> int:
    """1: b is worth it, -1: it is not, 0: that is not clear."""
    low, high = (_ends(policy, known[size]) for size in (a, b))
    if worth(a, low[1], b, high[0]) > 0:
        return 1
    return -1 if worth(a, low[0], b, high[1]) <= 0 else 0


def _ends(policy: Search, seen: Measured) -> tuple[float, float]:
    """Both ends of the confidence interval of a rate, which is never 0."""
    away = min(0.99, policy.confidence * seen.error / math.sqrt(2.0))
    return seen.mean * (1.0 - away), seen.mean * (1.0 + away)


def _best(job: JobView, policy: Search, worth: Worth, known: Known) -> int:
    """From the smallest on, each size against the best before it; where it is not clear, where the job is."""
    sizes = list(known)
    best = sizes[0]
    for size in sizes[1:]:
        verdict = _clear(policy, worth, known, best, size)
        if verdict > 0 or (verdict == 0 and size == job.size):
            best = size
    return best


def _trial(job: JobView, policy: Search, worth: Worth, known: Known, best: int, most: int) -> int | None:
    """The next size to try, or none: beyond the largest, between the best and the next larger one, below."""
    for size in (
        _beyond(policy, known, best, most),
        _between(job, policy, best, min((size for size in known if size > best), default=best)),
        _below(job, policy, known, best, most),
    ):
        if size is not None and _hopeful(job, worth, known, best, size):
            return size
    return None


def _beyond(policy: Search, known: Known, best: int, most: int) -> int | None:
    """A stride on from the largest size, while that is the best; once more where it is not worth it but still faster.

    Where workers begin to use a second node, or a second rack, that is paid once, and beyond it a job scales again.
    """
    *_, last = known
    above = [size for size in known if size > best]
    if len(above) > 1 or (above and known[last].mean <= known[best].mean):
        return None
    steps = max(1, round(last * (policy.stride - 1.0)) // policy.step)
    far = min(last + steps * policy.step, most)
    return far if far > last else None


def _between(job: JobView, policy: Search, low: int, high: int) -> int | None:
    middle = _on_grid(job, policy, (low + high) // 2)
    if high - low <= max(policy.step, policy.tolerance * low) or not low < middle < high:
        return None
    return middle


def _below(job: JobView, policy: Search, known: Known, best: int, most: int) -> int | None:
    """Between the best and the next smaller one; a stride back where none is known, and larger ones are not worth it
    or not allowed.
    """
    low = max((size for size in known if size < best), default=0)
    if low:
        return _between(job, policy, low, best)
    back = min(_on_grid(job, policy, round(best / policy.stride)), best - policy.step)
    return back if back >= job.min and (best == most or max(known) > best) else None


def _hopeful(job: JobView, worth: Worth, known: Known, best: int, size: int) -> bool:
    """Whether the size could be preferred if it were as good as it can be, and the way there would pay."""
    here, expected = known[best].mean, _at_most(known, size)
    if size < best:
        return worth(size, expected, best, here) <= 0 and left(job, here) > LAST * idle(job)
    return worth(best, here, size, expected) > 0 and (size <= job.size or pays(job, expected))


def _at_most(known: Known, size: int) -> float:
    """The highest rate that the size can have where throughput is concave in the number of workers.

    That is under the line through the next two sizes on either side; with one known size below, it scales perfectly
    from there; where it would be the largest of all, a job may do better than before, so it scales perfectly, too.
    """
    lower = [other for other in known if other < size]
    upper = [other for other in known if other > size]
    bounds = (
        [known[upper[0]].mean + _slope(known, upper[0], upper[1]) * (size - upper[0])] if upper[1:] else []
    )
    if upper and lower[1:]:
        bounds.append(known[lower[-1]].mean + _slope(known, lower[-2], lower[-1]) * (size - lower[-1]))
    nearest = lower[-1] if lower else upper[0]
    perfect = known[nearest].mean * max(1.0, size / nearest)
    return max(1e-9, min(perfect, *bounds)) if bounds else perfect


def _slope(known: Known, low: int, high: int) -> float:
    return (known[high].mean - known[low].mean) / (high - low)


def _on_grid(job: JobView, policy: Search, size: int) -> int:
    """The largest size of the grid that is no larger, at least the minimum."""
    return job.min + max(0, size - job.min) // policy.step * policy.step
