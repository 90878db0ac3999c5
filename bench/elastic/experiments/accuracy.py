"""Whether sizes differ in the accuracy they reach: paired differences over seeds, and their intervals. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scipy.special import stdtrit  # what stats.t.ppf asks, without the half second of loading scipy.stats

POINT: Final = 0.01
SPREADS: Final = 1.5
"""The margin: a point of accuracy, or so many standard deviations of runs that differ in their seed alone."""

CONFIDENCE: Final = 0.95

Finals = Mapping[int, float]
"""Final accuracy by seed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One size minus another, over the same seeds."""

    mean: float
    low: float
    high: float
    margin: float

    @property
    def equivalent(self) -> bool:
        """The whole interval is inside of the margin."""
        return -self.margin <= self.low and self.high <= self.margin


def compare(one: Finals, other: Finals, margin: float) -> Difference:
    """The 95 % interval of the mean difference, by Student's t. Of a single seed it is without bounds."""
    differences = [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]
    mean, count = statistics.fmean(differences), len(differences)
    if count < 2:
        return Difference(mean, -math.inf, math.inf, margin)
    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    half = reach * statistics.stdev(differences) / math.sqrt(count)
    return Difference(mean, mean - half, mean + half, margin)


def margin(fixed: Sequence[Finals]) -> float:
    """fixed: of sizes that never changed."""
    return max(POINT, SPREADS * spread(fixed))


def spread(fixed: Sequence[Finals]) -> float:
    """Standard deviation of runs of one size, pooled over the sizes; 0 of single runs."""
    variances = [statistics.variance(own.values()) for own in fixed if len(own) > 1]
    return math.sqrt(statistics.fmean(variances)) if variances else 0.0
