"""A gang that needs no less than one that was refused for room is refused too, without a question.

Why that is so: the nodes that a gang may have hold so many members of its demand, and it gets seats exactly when those
suffice. They are counted in one domain where the level is required, else in all. A node holds no more members of a
demand that asks for more of anything. So at the same nodes, domains and priority a gang of no fewer members, each of
which needs no less, finds no more room.

Gangs compare only where that holds. Gangs of several demands do not: a small one may miss the seats that a large one
finds. Nor do gangs that must be spread evenly: a larger member is at home in fewer domains, which are more easily even.

The least that many gangs ask for, resource by resource, is asked about like a gang. Where even that is refused, all of
them are. It is never seated, so the order of the queue stays what it is.

Lives here: what compares with what, what was refused, and the least of many. Never here: when to ask (`asking`).
"""

import operator
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from scheduler.model.decision import Reason, Wait
from scheduler.model.workload import Gang, Role, Strategy, Uid

LEAST: Final = 16
"""Refusals remembered of one kind, of which none covers another; the oldest goes first."""

ALL: Final = 1 << 20
"""Gangs that one such request stands for at first: more than any queue has."""

Amounts: TypeAlias = tuple[int, ...]
"""Members of the quorum, then what each member requests of each resource."""


class Size(NamedTuple):
    """How much a gang asks for. Sizes of one kind compare; kinds are numbers, because they are hashed so often."""

    kind: int
    amounts: Amounts


def size_of(gang: Gang, number: Callable[[Hashable], int]) -> Size | None:
    """None: whether this gang fits says nothing about others.

    number: a number of its own for all that decides about a gang's seats beside the amounts.
    """
    role = _only(gang)
    if role is None or (gang.required and gang.strategy is Strategy.SPREAD):
        return None
    demand = role.demand
    names = tuple(name for name, _ in demand.requests)
    how = (gang.strategy, gang.level, gang.required, gang.priority, gang.anchors, gang.barred)
    kind = (names, demand.where, demand.ports, how)
    return Size(number(kind), (len(role.quorum), *(amount for _, amount in demand.requests)))


def shrunk(gang: Gang, amounts: Amounts) -> Gang:
    """A gang of this one's kind that asks for these amounts, and for no surplus. Only to ask about, never to seat."""
    role = _only(gang)
    if role is None:
        return gang
    names = (name for name, _ in role.demand.requests)
    demand = replace(role.demand, requests=tuple(zip(names, amounts[1:], strict=True)))
    members = tuple(Uid(str(number)) for number in range(amounts[0]))
    return replace(gang, roles=(Role("", demand, members),))


def _only(gang: Gang) -> Role | None:
    """The one role with a quorum."""
    found = [role for role in gang.roles if role.quorum]
    return found[0] if len(found) == 1 else None


class Refused:
    """What was refused for room since there is so much, by kind: sizes of which none covers another."""

    def __init__(self) -> None:
        self._found: dict[int, list[tuple[Amounts, Wait]]] = {}
        self._reach: dict[int, int] = {}

    def add(self, size: Size, wait: Wait) -> None:
        """wait: the answer. The reason RESERVED says that there would be room, were none of it kept."""
        own = size.amounts
        kept = [
            (amounts, other)
            for amounts, other in self._found.get(size.kind, ())
            if not (covers(own, amounts) and other.reason in {wait.reason, Reason.RESERVED})
        ]
        self._found[size.kind] = [*kept, (own, wait)][-LEAST:]

    def why(self, size: Size) -> Wait | None:
        """What was answered to a gang that needs no more than this size; None: nothing says that it is refused.
        RESERVED only where no more is known.
        """
        found, own = None, size.amounts
        for amounts, wait in self._found.get(size.kind, ()):
            if covers(amounts, own):
                if wait.reason is not Reason.RESERVED:
                    return wait
                found = wait
        return found

    def reach(self, kind: int) -> int:
        """How many gangs of the queue the next request for the least stands for."""
        return self._reach.get(kind, ALL)

    def ask_for_the_least(
        self, kind: int, gangs: int, sizes: Iterable[Size | None], ask: Callable[[Amounts], Wait | None]
    ) -> None:
        """Ask about the least of each that these sizes of the kind need, but for those that are known to be refused.

        gangs: how many it stands for. The next request stands for more where this one is refused, else for fewer.
        ask: the refusal of these amounts, if they are refused.
        """
        found = [own.amounts for own in sizes if own and own.kind == kind and self.why(own) is None]
        hopeless = len(found) <= 1  # to ask about that one itself costs no more
        if not hopeless:
            amounts = tuple(map(min, zip(*found, strict=True)))
            if (wait := ask(amounts)) is not None:
                self.add(Size(kind, amounts), wait)
                hopeless = True
        self._reach[kind] = min(ALL, 2 * gangs) if hopeless else max(1, gangs // 2)


def covers(small: Amounts, large: Amounts) -> bool:
    """A gang that cannot have the small one cannot have the large one."""
    return all(map(operator.le, small, large))
