"""One object for equal values: 50,000 pods have a few hundred different demands, owners and gangs among them.

The caller owns the shelf and how long it lives; nothing depends on what is in it but memory and time.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Values = TypeVarTuple("Values")

TURN: Final = 2**16
"""Questions after which what was not asked for meanwhile is on its way out: some 6,000 readings of a pod. A list of all
pods comes in the order of their names, so pods of one gang are close together in it."""


class Interner:
    """Keeps up to `limit` values. What was not asked for in the last TURN to 2 TURN questions is forgotten: of gangs that
    are gone no more stays than of those few that came last.
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
        """The value that equals this one and came first."""
        key = (type(value), value)
        known: T | None = self._known(key)
        return self._keep(key, value) if known is None else known

    def each(self, *values: *Values) -> tuple[*Values]:
        """`one` of each of these."""
        return cast("tuple[*Values]", tuple(map(self.one, values)))

    def made(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave for this key the first time. `make` must depend on nothing but the key."""
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
