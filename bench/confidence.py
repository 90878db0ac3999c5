"""How far a mean over a few runs may be from the truth.

Apart from `report`, so that the simulator needs no scipy.
"""

import math
import statistics
from collections.abc import Sequence

from scipy.special import stdtrit


def interval(sample: Sequence[float]) -> float:
    """Half the 95% interval of the mean, by Student's t. 0 for less than two figures."""
    if len(sample) < 2:
        return 0.0
    t = float(stdtrit(len(sample) - 1, 0.975))
    return t * statistics.stdev(sample) / math.sqrt(len(sample))
