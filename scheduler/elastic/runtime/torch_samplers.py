"""PyTorch's `DistributedSampler`: dealt again in each round, as Horovod's `ElasticSampler` is.

A script makes it once, with the rank and the size that it has then. In a later round its parts would overlap or leave
samples out. One that was made for another rank or size than the process had is the script's own affair.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

_made: Any = weakref.WeakValueDictionary()
"""By identity, for a class of a script may have no hash."""
_makes: Any = None
"""How such a sampler begins; classes that derive from it may begin in another way."""


def patch(module: Any) -> None:
    """Notes each `DistributedSampler` that is made from now on."""
    global _makes  # noqa: PLW0603 - one module of PyTorch's
    make = _makes = module.DistributedSampler.__init__

    @functools.wraps(make)
    def init(self: Any, *args: Any, **words: Any) -> None:
        make(self, *args, **words)
        _made[id(self)] = self

    module.DistributedSampler.__init__ = init


def deal(former: tuple[int, int], rank: int, size: int) -> bool:
    """Deals again those that were dealt for `former`, rank and size; whether there are any."""
    dealt = [one for one in _made.values() if (one.rank, one.num_replicas) == former]
    for one in dealt if former != (rank, size) else ():
        epoch = one.epoch
        _makes(one, one.dataset, size, rank, one.shuffle, one.seed, one.drop_last)
        one.epoch = epoch
    return bool(dealt)
