"""The last look before Horovod's `init`: everybody who belongs to the round is here, alive, with a state that fits.

From `init` on a missing member ends everybody (C++ aborts when it is told that the value it waits for will not come,
when the connection it waits for comes and ends, or after the gloo timeout, which is five times as long for a
connection), and a state that does not fit hangs everybody. So each member says through the round's key-value store that
it stands at the door and what its state is made of; rank 0 hears all and says go, or names who does not fit. That keeps
the time in which a death is expensive down to `init` itself (about 0.1 s). Whoever waits here waits in Python, and
leaves as soon as a newer round is announced, or this one is over.

Two calls for a member, one per member and one more for rank 0: a few milliseconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from .agent_client import Shim
from .round_assignment import Assignment
from .runtime_errors import RoundOver, StateMismatch

SCOPE = "doorstep"
"""Where in the round's key-value store this is spoken of; Horovod's own scopes are `global`, `local_…`, `cross_…`."""

PAUSE = 0.02
"""Seconds before a value that is not there is asked for again (the agent itself waits before it says no)."""


@dataclass(frozen=True)
class Card:
    """What a member shows: the digest of its state, and the state in words; and what rank 0 passes on to all."""

    fingerprint: str
    state: str
    word: Mapping[str, Any] = field(default_factory=dict)


class Overtaken(Exception):  # noqa: N818 - read as a word where it is caught
    """A newer round is announced, this one is over, or a member was sent away: back to the barrier."""


def pass_through(
    shim: Shim, assignment: Assignment, card: Card, overtaken: Callable[[], bool]
) -> Mapping[str, Any]:
    """Returns rank 0's word when all members may enter `init`.

    Raises Overtaken when this round will not be, StateMismatch when it is this worker that does not fit.
    """
    if assignment.size == 1:
        return card.word
    door = _Door(shim, overtaken)
    try:
        return (_knock if assignment.rank else _receive)(door, assignment, card)
    except RoundOver:
        raise Overtaken from None


def _receive(door: _Door, assignment: Assignment, mine: Card) -> Mapping[str, Any]:
    refused = {}
    for rank in range(1, assignment.size):
        theirs = door.get(str(rank))
        if assignment.sync and theirs.get("fingerprint") != mine.fingerprint:
            refused[str(rank)] = str(theirs.get("state"))
    door.look()  # rank 0 may have come late: from a checkpoint of minutes, and the others have left for a newer round
    shown = {"fingerprint": mine.fingerprint, "state": mine.state}
    door.put("go", {**shown, "refused": refused, "word": dict(mine.word)})
    if refused:
        raise Overtaken
    return mine.word


def _knock(door: _Door, assignment: Assignment, mine: Card) -> Mapping[str, Any]:
    door.put(str(assignment.rank), {"fingerprint": mine.fingerprint, "state": mine.state})
    heard = door.get("go")
    refused = heard.get("refused") or {}
    if str(assignment.rank) in refused:
        leader = assignment.members[0] if assignment.members else "rank 0"
        raise StateMismatch(
            f"the state of this worker cannot be synchronised with that of {leader} in round {assignment.round}: "
            f"here {mine.state} (fingerprint {mine.fingerprint}); there {heard.get('state')} "
            f"(fingerprint {heard.get('fingerprint')}). Build the same model, and its optimizer, in every worker before "
            "the state is made"
        )
    if refused:
        raise Overtaken
    word = heard.get("word")
    return word if isinstance(word, dict) else {}


class _Door:
    def __init__(self, shim: Shim, overtaken: Callable[[], bool]) -> None:
        self._shim, self._overtaken = shim, overtaken

    def put(self, key: str, value: dict[str, Any]) -> None:
        while not self._shim.put(SCOPE, key, value):
            self._pause()

    def get(self, key: str) -> dict[str, Any]:
        while (found := self._shim.get(SCOPE, key)) is None:
            self._pause()
        return found

    def look(self) -> None:
        """Raises Overtaken when a newer round is announced."""
        if self._overtaken():
            raise Overtaken

    def _pause(self) -> None:
        self.look()
        time.sleep(PAUSE)
