"""Seats that are kept for pods that their owners have not made yet, by the gang that moves or lost members.

Never here: who takes them, and when they are given back (migration).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from scheduler.ledger.gang import GangRecord
from scheduler.ledger.registry import lineage
from scheduler.ledger.timers import Timers
from scheduler.model.demand import Demand
from scheduler.model.workload import GangKey, Owner, Uid

REFUSED: Final = 300.0
"""Seconds for which a gang whose first member might not be evicted is not moved again, unless a person asks."""


@dataclass(slots=True)
class Lease:
    """A seat kept for the pod that takes the place of `old`."""

    old: Uid
    node: str
    role: str
    demand: Demand
    owner: Owner | None = None
    """Of `old`, where that was lost."""

    @property
    def name(self) -> Uid:
        """Under which it uses room."""
        return Uid(f"lease:{self.old}")


@dataclass(slots=True)
class Migration:
    """One gang on its way. `going`: members that are not evicted yet; of a whole gang the first of them goes alone."""

    gang: GangKey
    line: str
    whole: bool
    leases: list[Lease]
    going: list[Uid]
    by: float
    """When it is over, unless a member is on its way out then."""
    asked: list[Uid] = field(default_factory=list)
    vacancy: bool = False
    """Its members were lost rather than moved."""


class Migrations:
    """All gangs that move. What one gang asks of them costs the same, however many there are."""

    def __init__(self) -> None:
        self.moves: dict[GangKey, Migration] = {}
        """By gang; written here alone."""
        self._by_line: dict[str, dict[GangKey, Migration]] = {}
        self._drains: dict[GangKey, Migration] = {}
        """Those that go on by themselves, which vacancies do not."""
        self._ends = Timers()
        self._refused: dict[GangKey, float] = {}
        self._waiting: dict[GangKey, None] = {}

    def __len__(self) -> int:
        return len(self.moves)

    def __iter__(self) -> Iterator[Migration]:
        return iter(list(self.moves.values()))

    def __contains__(self, key: object) -> bool:
        """This gang is asked to move."""
        move = self.moves.get(key) if isinstance(key, GangKey) else None
        return move is not None and not move.vacancy

    def vacancy(self, key: GangKey) -> Migration | None:
        """Places that are kept for successors of this gang's members."""
        move = self.moves.get(key)
        return move if move is not None and move.vacancy else None

    def put(self, move: Migration) -> None:
        self.moves[move.gang] = move
        self._by_line.setdefault(move.line, {})[move.gang] = move
        if not move.vacancy:
            self._drains[move.gang] = move
        self._ends.set(move.gang, move.by)

    def drop(self, move: Migration) -> None:
        if self.moves.get(move.gang) is not move:
            return
        del self.moves[move.gang]
        self._drains.pop(move.gang, None)
        self._ends.forget(move.gang)
        own = self._by_line[move.line]
        del own[move.gang]
        if not own:
            del self._by_line[move.line]

    def last(self, move: Migration, by: float) -> None:
        """It is over then."""
        move.by = by
        self._ends.set(move.gang, by)

    def to_see_to(self, now: float) -> list[Migration]:
        """Gangs that are asked to move, and vacancies that are over."""
        due = list(self._ends.due(now))
        for key in due:
            self._ends.set(key, self.moves[key].by)
        return [self.moves[key] for key in dict.fromkeys([*self._drains, *due])]

    def refuse(self, key: GangKey, now: float) -> None:
        """No member of this gang may be evicted now."""
        self._refused = {own: until for own, until in self._refused.items() if until > now}
        self._refused[key] = now + REFUSED

    def is_refused(self, key: GangKey, now: float) -> bool:
        """So it is of no use to try again of our own accord."""
        return self._refused.get(key, now) > now

    @property
    def waited_for(self) -> bool:
        """A gang has seats that others have to leave first."""
        return bool(self._waiting)

    def wait(self, key: GangKey) -> None:
        """This gang has seats that others have to leave first."""
        self._waiting[key] = None

    def take_waiting(self) -> list[GangKey]:
        """Gangs that waited so, once each: there is more room now."""
        found, self._waiting = list(self._waiting), {}
        return found

    def names(self) -> set[Uid]:
        """Under which leases use room."""
        return {lease.name for move in self for lease in move.leases}

    def of(self, record: GangRecord) -> list[Migration]:
        """Moves whose leases are for this gang."""
        pod = next(iter(record.members.values())).pod if self.moves and record.members else None
        return list(self._by_line.get(lineage(record.key, pod), {}).values()) if pod is not None else []

    def extend(self, by: float) -> None:
        """None of them is over before this."""
        for move in self:
            self.last(move, max(move.by, by))

    def next_due(self) -> float:
        return self._ends.next()
