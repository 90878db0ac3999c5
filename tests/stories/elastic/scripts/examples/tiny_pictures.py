"""A small data set for the examples: pictures of ten classes, the same in every process.

It is made with numpy, because not every environment of the tests has a package that ships real pictures.
"""

import numpy as np

SIDE = 8
CLASSES = 10
SEED = 20
"""Of the data alone. An example's own seed is for its weights and its order."""


def pictures(count, first=0):
    """(pictures `count` × 8 × 8 as float32, classes as int64); `first`: so many samples of the set come before."""
    rng = np.random.default_rng(SEED)
    patterns = rng.random((CLASSES, SIDE, SIDE))
    classes = np.arange(first, first + count) % CLASSES
    noise = np.random.default_rng([SEED, first]).normal(0.0, 0.3, (count, SIDE, SIDE))
    return (patterns[classes] + noise).astype(np.float32), classes.astype(np.int64)
