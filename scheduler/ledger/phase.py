"""A gang's lifecycle as a table.

    gathering → waiting → (freeing) → held → bound → running → leaving
                   ↑        │       │
                   └────────┴───────┘   a seat lost, a member lost: the rest of the quorum waits again

A state is derived from the facts and never stored: the first row of TABLE with a true condition determines it. So no
order of events can leave a gang in a state that its members contradict.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The state of a gang in its lifecycle."""

    REFUSED = "refused"
    GATHERING = "gathering"
    WAITING = "waiting"
    FREEING = "freeing"
    HELD = "held"
    BOUND = "bound"
    RUNNING = "running"
    LEAVING = "leaving"


QUORUM_BOUND: Final = frozenset({State.BOUND, State.RUNNING})
"""The whole quorum is bound."""

UNDER_WAY: Final = frozenset({State.WAITING, State.FREEING, State.HELD})
"""The whole quorum exists, and is not bound yet."""

SEATED: Final = QUORUM_BOUND | {State.HELD}
"""States of gangs whose end can be estimated. A gang with missing members may wait for them without limit."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Counts of a gang's members. Those for the quorum are capped per role at its minimum."""

    quorum: int
    bound: int
    """Of the quorum: bound and not ended, or Succeeded."""
    running: int
    """Of the quorum: Running or Succeeded."""
    held: int
    """Of the quorum: with a held seat, not bound yet."""
    waiting: int
    """Of the quorum: can be placed now."""
    live: int
    """All members neither ended nor terminating."""
    there: int
    """Of those: bound, whether or not they count for the quorum."""
    refused: bool = False
    freeing: bool = False
    """Victims must leave before its seats are free."""


TABLE: Final[tuple[tuple[State, Callable[[Facts], bool]], ...]] = (
    (State.LEAVING, lambda f: f.live == 0),
    (State.REFUSED, lambda f: f.refused and f.bound + f.held == 0),
    (State.RUNNING, lambda f: f.quorum > 0 and f.running >= f.quorum),
    (State.BOUND, lambda f: f.quorum > 0 and f.bound >= f.quorum),
    (State.FREEING, lambda f: f.freeing and f.bound + f.held >= f.quorum),
    (State.HELD, lambda f: f.quorum > 0 and f.bound + f.held >= f.quorum),
    (State.WAITING, lambda f: f.quorum > 0 and f.bound + f.held + f.waiting >= f.quorum),
    (State.GATHERING, lambda _: True),
)


def state(facts: Facts) -> State:
    """The first state of the table with a true condition."""
    for name, holds in TABLE:
        if holds(facts):
            return name
    raise AssertionError("the last row of the table always holds")
