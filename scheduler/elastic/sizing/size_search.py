"""The search that `efficiency` and `utility` share: try larger sizes while they are preferred, then settle in between.

Lives here: which size to try next, from the measurements so far. Never here: which size is preferred. That is the rule
of the policy, a function (from size, rate; to size, rate) → above 0 if the second is preferred. MLSys'20 tries the
sizes one after the other. Doubling, and then the maximum of a parabola through the best size and its neighbors, finds
the same size in a number of trials that grows with the logarithm; `stride: 1` is the way of MLSys'20.

A comparison counts if it holds at the worse ends of both confidence intervals, R_a·(1 + z·e_a/√2) and R_b·(1 −
z·e_b/√2) with the relative standard errors e: one-sided, at z standard errors of the ratio if both are alike. If it
holds at only one end the job keeps its size, so noise alone moves no worker.
"""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from scheduler.elastic.sizing.job_view import JobView, Measured
from scheduler.elastic.sizing.policy_parameters import Search
from scheduler.elastic.sizing.proposal import Proposal, idle, largest, left, pays

Worth: TypeAlias = Callable[[int, float, int, float], float]
"""(a, samples/s at a, b, samples/s at b) → above 0 if b, the larger size, is preferred."""

Known: TypeAlias = dict[int, Measured]

LAST: Final = 10.0
"""A smaller size is not tried within the time of the last ten resizes: it could save less than the change costs."""

SPREAD: Final = 0.05
"""Relative spread of one measurement before a job has shown its own: step times scatter by a few percent."""

PRIOR: Final = 2.0
"""Number of measurements for which this prior counts."""

NEAR: Final = 0.1
"""A peak nearer to the best size than this fraction is not tried: the curve is flat near its peak, so the two differ by
less than a few measurements can show."""


def search(job: JobView, policy: Search, worth: Worth) -> Proposal:
    """The size to try next, or the best known one."""
    if not job.size:
        starts = job.held >= job.min
        return Proposal(size=job.min, reason="start with the minimum", grain=policy.step, soon=starts)
    most = _on_grid(job, policy, largest(job))
    if job.size > most:
        return Proposal(size=most, reason=f"more than {most} workers are of no use", grain=policy.step)
    known = _known(job, policy, worth, most)
    if job.size not in known:
        said = f"measuring {job.size} workers"
        return Proposal(size=job.size, reason=said, grain=policy.step, soon=True)
    best = _best(job, policy, worth, known)
    trial = _trial(job, policy, worth, known, best, most)
    if trial is not None:
        said = f"best so far {best}, trying {trial}"
        return Proposal(size=trial, reason=said, grain=policy.step, soon=True)
    said = f"the best of {', '.join(map(str, known))} workers: {best}, {known[best].mean:.4g} {job.unit}/s"
    return Proposal(size=best, reason=said, grain=policy.step)


def _known(job: JobView, policy: Search, worth: Worth, most: int) -> Known:
    """Sizes with enough and recent measurements, in order.

    Enough means `samples`. One is enough for the very first size, because a larger one is tried next in any case. One
    is also enough for a size that is clearly preferred already, because disturbances only make steps longer: a size
    that looks bad may be better, but one that looks good is good.
    """
    known: Known = {}
    spread = _spread(job)
    for size, seen in sorted(job.measured.items()):
        if not job.min <= size <= most or (size != job.size and seen.age > policy.forget):
            continue
        if seen.count >= policy.samples - _FADED:
            known[size] = seen
            continue
        few = replace(seen, variance=spread * seen.mean**2)
        enough = size != job.size or len(job.measured) == 1  # the very first size
        if known:
            best = _best(job, policy, worth, known)
            enough = _clear(policy, worth, {**known, size: few}, best, size) > 0
        if seen.count >= 1.0 and enough:
            known[size] = few
    return known


def _spread(job: JobView) -> float:
    """Variance of one measurement, relative to its mean squared. All sizes are pooled, as noise belongs to the job.

    `SPREAD` counts as well while there are few measurements.
    """
    often = [seen for seen in job.measured.values() if seen.count > 1.0]
    told = [(seen.count - 1.0, seen.variance / seen.mean**2) for seen in often]
    weights = PRIOR + sum(weight for weight, _ in told)
    return (PRIOR * SPREAD**2 + sum(weight * own for weight, own in told)) / weights


_FADED = 0.1
"""Weight that a few measurements lose by age while they are taken."""


def _clear(policy: Search, worth: Worth, known: Known, a: int, b: int) -> int:
    """1: b is preferred, -1: it is not, 0: not clear."""
    low, high = (_ends(policy, known[size]) for size in (a, b))
    if worth(a, low[1], b, high[0]) > 0:
        return 1
    return -1 if worth(a, low[0], b, high[1]) <= 0 else 0


def _ends(policy: Search, seen: Measured) -> tuple[float, float]:
    """Both ends of the confidence interval of a rate, which is never 0."""
    away = min(0.99, policy.confidence * seen.error / math.sqrt(2.0))
    return seen.mean * (1.0 - away), seen.mean * (1.0 + away)


def _best(job: JobView, policy: Search, worth: Worth, known: Known) -> int:
    """Compare each size with the best smaller one, in order; if it is not clear, prefer the present size."""
    sizes = list(known)
    best = sizes[0]
    for size in sizes[1:]:
        verdict = _clear(policy, worth, known, best, size)
        if verdict > 0 or (verdict == 0 and size == job.size):
            best = size
    return best


def _trial(job: JobView, policy: Search, worth: Worth, known: Known, best: int, most: int) -> int | None:
    """The next size to try, if any: beyond the largest, between the best and the next larger one, below."""
    low = max((size for size in known if size < best), default=0)
    high = min((size for size in known if size > best), default=0)
    peak = _peak(worth, known, low, best, high) if low and high else None
    for size in (
        _beyond(policy, known, best, most),
        _inside(job, policy, low, best, high, peak) if peak else _between(job, policy, best, high or best),
        None if peak else _below(job, policy, known, best, most),
    ):
        if size is not None and _hopeful(job, worth, known, best, size):
            return size
    return None


def _peak(worth: Worth, known: Known, low: int, best: int, high: int) -> float:
    """Maximum of the parabola through the best size and its neighbors, over the logarithm of the size.

    It is nearer to the maximum of a smooth function than the middle of the interval (successive parabolic
    interpolation: Brent 1973), and often shows that the best size is near it already.
    """
    below, above = math.log(low / best), math.log(high / best)
    to_best = worth(low, known[low].mean, best, known[best].mean)
    from_best = worth(best, known[best].mean, high, known[high].mean)
    left, right = -to_best / below, from_best / above
    bend = (right - left) / (above - below)
    away = (bend * below - left) / (2.0 * bend) if bend < 0 else 0.0
    return best * math.exp(max(below / 2.0, min(away, above / 2.0)))


def _inside(job: JobView, policy: Search, low: int, best: int, high: int, peak: float) -> int | None:
    """The peak, if it is far enough from the best size, and the interval is wide enough for a trial."""
    aim = _on_grid(job, policy, round(peak))
    a, b = (best, high) if aim > best else (low, best)
    near = max(policy.step, policy.tolerance * a) >= b - a or abs(peak - best) < NEAR * best
    return aim if a < aim < b and not near else None


def _beyond(policy: Search, known: Known, best: int, most: int) -> int | None:
    """One stride beyond the largest size while that is the best, and once more if it is not preferred but still faster.

    When workers begin to use a second node or rack, that cost is paid once, and the job scales again beyond it.
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
    """Between the best and the next smaller size. If none is known, one stride back, provided that larger sizes are not
    preferred or not allowed.
    """
    low = max((size for size in known if size < best), default=0)
    if low:
        return _between(job, policy, low, best)
    back = min(_on_grid(job, policy, round(best / policy.stride)), best - policy.step)
    return back if back >= job.min and (best == most or max(known) > best) else None


def _hopeful(job: JobView, worth: Worth, known: Known, best: int, size: int) -> bool:
    """Whether the size could be preferred if it were as good as possible, and the resize would pay."""
    here, expected = known[best].mean, _at_most(known, size)
    if size < best:
        return worth(size, expected, best, here) <= 0 and left(job, here) > LAST * idle(job)
    return worth(best, here, size, expected) > 0 and (size <= job.size or pays(job, expected))


def _at_most(known: Known, size: int) -> float:
    """The highest rate that the size can have if throughput is concave in the number of workers.

    It is below the line through the next two sizes on either side. With one known size below, it scales perfectly from
    there. If it would be the largest of all, a job may do better than before, so it scales perfectly as well.
    """
    lower = [other for other in known if other < size]
    upper = [other for other in known if other > size]
    bounds = []
    if upper[1:]:
        bounds.append(known[upper[0]].mean + _slope(known, upper[0], upper[1]) * (size - upper[0]))
    if upper and lower[1:]:
        bounds.append(known[lower[-1]].mean + _slope(known, lower[-2], lower[-1]) * (size - lower[-1]))
    nearest = lower[-1] if lower else upper[0]
    perfect = known[nearest].mean * max(1.0, size / nearest)
    return max(1e-9, min(perfect, *bounds)) if bounds else perfect


def _slope(known: Known, low: int, high: int) -> float:
    return (known[high].mean - known[low].mean) / (high - low)


def _on_grid(job: JobView, policy: Search, size: int) -> int:
    """The largest size of the grid that is not larger, at least the minimum."""
    return job.min + max(0, size - job.min) // policy.step * policy.step
