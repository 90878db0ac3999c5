"""Gangs that are alike get one answer: shapes as numbers, and what was answered to each.

A shape is all of a gang that decides about its placement. Numbers, because a shape is compared for every gang that
waits in every pass, and to hash a gang's demands takes ten times as long as everything else in it.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.engine.dominance import Refused, Size, size_of
from scheduler.model.decision import Wait
from scheduler.model.workload import Gang

KEPT: Final = 1024
"""Shapes numbered, or four times as many as gangs wait. Then numbering starts over above all numbers that were given, and
no gang is answered by an old one. A shape of a torn gang names every node on which it has a member."""

KINDS: Final = 4096
"""Kinds of gangs remembered for which nobody's leaving makes room; then each is asked about once more."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is known without a question: the answers by shape, and what was refused to less."""

    alike: dict[int, Wait] = field(default_factory=dict)
    refused: Refused = field(default_factory=Refused)


class Shapes:
    """Numbers for shapes, and the answers that are still true."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = 0
        self._sizes: dict[int, Size] = {}
        self._kinds: dict[Hashable, int] = {}
        self._answers: defaultdict[tuple[int, bool], Told] = defaultdict(Told)
        self._fence = 0
        """The newest fence: older ones are no more, and nobody is answered by what was answered under them."""
        self._no_room: set[Hashable] = set()
        self._no_room_at: Hashable = None
        self._at: tuple[int, int] = (-1, -1)

    def number(self, gang: Gang, waiting: int = 0) -> int:
        """The number of this gang's shape, where so many gangs wait."""
        shape = _shape(gang)
        number = self._numbers.get(shape)
        if number is None:
            if len(self._numbers) >= max(KEPT, 4 * waiting):
                self._numbers.clear()
                self._sizes.clear()
                self._kinds.clear()
                self._answers = defaultdict(Told)
            number = self._numbers[shape] = self._next
            self._next += 1
            size = size_of(gang, lambda kind: self._kinds.setdefault(kind, len(self._kinds)))
            if size is not None:
                self._sizes[number] = size
        return number

    @property
    def sizes(self) -> Mapping[int, Size]:
        """By shape, how much it asks for, where that compares with others."""
        return self._sizes

    def no_room(self, at: Hashable) -> set[Hashable]:
        """Gangs of one kind for which nobody's leaving makes room; forgotten when `at` changes."""
        if self._no_room_at != at or len(self._no_room) >= KINDS:
            self._no_room, self._no_room_at = set(), at
        return self._no_room

    def answers(self, at: tuple[int, int], fence: int, *, short: bool) -> Told:
        """The answers to gangs under this fence that are short of it or not; forgotten when `at` changes, or
        with another fence after this one: on a full cluster that alone happens for weeks.
        """
        if self._at != at:
            self._answers, self._at = defaultdict(Told), at
        if fence > self._fence:
            self._fence = fence
            for older in [own for own in self._answers if 0 < own[0] < fence]:
                del self._answers[older]
        return self._answers[fence, short]


def _shape(gang: Gang) -> Hashable:
    roles = tuple((role.name, role.demand, len(role.quorum), len(role.surplus)) for role in gang.roles)
    return (roles, gang.strategy, gang.level, gang.required, gang.priority, gang.anchors, gang.barred)
