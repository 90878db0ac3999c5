"""One object for equal values: 50,000 pods have a few hundred different demands, owners and gangs among them.

The caller owns the shelf and how long it lives; nothing depends on what is in it but memory and time.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Interner:
    """Keeps up to `limit` values; when it is full it starts afresh, since what is in use comes back soon."""

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._kept: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def one(self, value: T) -> T:
        """The value that equals this one and came first."""
        key = (type(value), value)
        known: T | None = self._kept.get(key)
        return self._keep(key, value) if known is None else known

    def made(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave for this key the first time. `make` must depend on nothing but the key."""
        known: T | None = self._kept.get(key)
        return self._keep(key, make()) if known is None else known

    def _keep(self, key: Hashable, value: T) -> T:
        if len(self._kept) >= self._limit:
            self._kept.clear()
        self._kept[key] = value
        return value
