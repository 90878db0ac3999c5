"""Leases: seats reserved for pods that their owners have not created yet, by the gang that moves or lost members.

Never here: which pods take them, and when they are released (migration).
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
"""Seconds before a gang is moved again after the eviction of its first member was denied, unless an operator asks."""


@dataclass(slots=True)
class Lease:
    """A seat reserved for the replacement of `old`."""

    old: Uid
    node: str
    role: str
    demand: Demand
    owner: Owner | None = None
    """The owner of `old`, if that was lost."""

    @property
    def name(self) -> Uid:
        """The name under which it uses resources."""
        return Uid(f"lease:{self.old}")


@dataclass(slots=True)
class Migration:
    """One gang that moves. `going`: members that are not evicted yet. Of an entire gang the first one goes alone."""

    gang: GangKey
    line: str
    whole: bool
    leases: list[Lease]
    going: list[Uid]
    by: float
    """When the move ends, unless a member is terminating then."""
    asked: list[Uid] = field(default_factory=list)
    vacancy: bool = False
    """Its members were lost, not moved."""


class Migrations:
    """All moves of gangs. A query about one gang costs the same, however many there are."""

    def __init__(self) -> None:
        self.moves: dict[GangKey, Migration] = {}
        """By gang. Only written here."""
        self._by_line: dict[str, dict[GangKey, Migration]] = {}
        self._drains: dict[GangKey, Migration] = {}
        """Moves that proceed on their own, unlike vacancies."""
        self._ends = Timers()
        self._refused: dict[GangKey, float] = {}
        self._waiting: dict[GangKey, None] = {}

    def __len__(self) -> int:
        return len(self.moves)

    def __iter__(self) -> Iterator[Migration]:
        return iter(list(self.moves.values()))

    def __contains__(self, key: object) -> bool:
        """This gang was requested to move."""
        move = self.moves.get(key) if isinstance(key, GangKey) else None
        return move is not None and not move.vacancy

    def vacancy(self, key: GangKey) -> Migration | None:
        """Seats reserved for replacements of this gang's members."""
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
        """Set the end of the move."""
        move.by = by
        self._ends.set(move.gang, by)

    def to_see_to(self, now: float) -> list[Migration]:
        """Gangs that were requested to move, and vacancies that are over."""
        due = list(self._ends.due(now))
        for key in due:
            self._ends.set(key, self.moves[key].by)
        return [self.moves[key] for key in dict.fromkeys([*self._drains, *due])]

    def refuse(self, key: GangKey, now: float) -> None:
        """No member of this gang may be evicted now."""
        self._refused = {own: until for own, until in self._refused.items() if until > now}
        self._refused[key] = now + REFUSED

    def is_refused(self, key: GangKey, now: float) -> bool:
        """Another attempt without an operator's request is useless."""
        return self._refused.get(key, now) > now

    @property
    def waited_for(self) -> bool:
        """A gang waits for its seats until others have left."""
        return bool(self._waiting)

    def wait(self, key: GangKey) -> None:
        """This gang waits for its seats until others have left."""
        self._waiting[key] = None

    def take_waiting(self) -> list[GangKey]:
        """Gangs that waited this way, once each: capacity was freed."""
        found, self._waiting = list(self._waiting), {}
        return found

    def names(self) -> set[Uid]:
        """Names under which leases use resources."""
        return {lease.name for move in self for lease in move.leases}

    def of(self, record: GangRecord) -> list[Migration]:
        """Moves whose leases are for this gang."""
        pod = next(iter(record.members.values())).pod if self.moves and record.members else None
        return list(self._by_line.get(lineage(record.key, pod), {}).values()) if pod is not None else []

    def extend(self, by: float) -> None:
        """None of them ends before this time."""
        for move in self:
            self.last(move, max(move.by, by))

    def next_due(self) -> float:
        return self._ends.next()
