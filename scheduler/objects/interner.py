"""Shares one object among equal values: 50,000 pods have only a few hundred distinct demands, owners and gangs.

The caller owns the interner and its lifetime. Its content affects only memory and time.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Values = TypeVarTuple("Values")

TURN: Final = 2**14
"""Lookups after which unused values become old: about 1,500 pods read. A list of all pods is sorted by name, so the pods
of one gang are close together in it."""


class Interner:
    """Keeps up to `limit` values. Values that were not used in the last TURN to 2 TURN lookups are dropped, so values of
    deleted gangs do not accumulate.
    """

    def __init__(self, limit: int = 20_000, turn: int = TURN) -> None:
        self._half = max(1, limit // 2)
        self._turn = turn
        self._asked = 0
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def one(self, value: T) -> T:
        """The first value that equals this one."""
        key = (type(value), value)
        known: T | None = self._known(key)
        return self._keep(key, value) if known is None else known

    def each(self, *values: *Values) -> tuple[*Values]:
        """`one` for each of these values."""
        return cast("tuple[*Values]", tuple(map(self.one, values)))

    def made(self, key: Hashable, make: Callable[[], T]) -> T:
        """The first result of `make` for this key. `make` must depend only on the key."""
        known: T | None = self._known(key)
        return self._keep(key, make()) if known is None else known

    def _known(self, key: Hashable) -> Any:
        self._asked += 1
        known = self._young.get(key)
        if known is None and (known := self._old.get(key)) is not None:
            self._keep(key, known)
        return known

    def _keep(self, key: Hashable, value: T) -> T:
        if self._asked >= self._turn or len(self._young) >= self._half:
            self._young, self._old, self._asked = {}, self._young, 0
        self._young[key] = value
        return value
