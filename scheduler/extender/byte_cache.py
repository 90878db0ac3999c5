"""A cache bounded in bytes, for values that repeat.

Lives here: which values to drop first. Never here: the meaning of the values.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

LONG: Final = 4096
"""Minimum bytes of a value that is kept. The one-node lists of pinned pods would only evict the others."""

_K = TypeVar("_K")
_V = TypeVar("_V")


class ByteCache(Generic[_K, _V]):
    """The most recently used values that fit in `budget` bytes. A value above an eighth of the budget is not kept."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._kept: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: _K) -> _V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: _K, value: _V, size: int) -> None:
        if not LONG <= size <= self.budget // 8 or key in self._kept:
            return
        self._kept[key] = value, size
        self.used += size
        while self.used > self.budget:
            self.used -= self._kept.popitem(last=False)[1][1]
