"""The last check before Horovod's `init`: all members of the round are here, alive, with a compatible state.

From `init` on, a missing member ends all others, and an incompatible state hangs all of them. (C++ aborts when it
learns that the value it waits for will not come, when the connection it waits for comes and ends, or after the gloo
timeout, which is five times as long for a connection.) So each member publishes in the round's key-value store that it
is at the barrier, and the composition of its state. Rank 0 reads all of them and says go, or names incompatible
members. Thus a death is expensive only during `init` itself (about 0.1 s). A member waits here in Python, and leaves as
soon as a newer round is announced, or this one is over.

Two calls for a member; for rank 0 one per member and one more: a few milliseconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from .agent_client import Shim
from .round_assignment import Assignment
from .runtime_errors import RoundOver, StateMismatch

SCOPE = "doorstep"
"""The scope in the round's key-value store; Horovod's own scopes are `global`, `local_…`, `cross_…`."""

PAUSE = 0.02
"""Seconds until a missing value is read again (the agent itself waits before it answers that it is missing)."""


@dataclass(frozen=True)
class Card:
    """What a member publishes: the digest of its state and its description; and what rank 0 passes on to all."""

    fingerprint: str
    state: str
    word: Mapping[str, Any] = field(default_factory=dict)


class Overtaken(Exception):  # noqa: N818 - a condition, not an error
    """A newer round is announced, this one is over, or a member was rejected: back to the barrier."""


def pass_through(
    shim: Shim, assignment: Assignment, card: Card, overtaken: Callable[[], bool]
) -> Mapping[str, Any]:
    """Returns rank 0's `word` when all members may enter `init`.

    Raises Overtaken if this round does not begin, StateMismatch if this worker's state is incompatible.
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
    door.look()  # rank 0 may be late, after reading a checkpoint for minutes, and the others in a newer round
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
            f"the state of this worker cannot be synchronized with that of {leader} in round {assignment.round}: "
            f"here {mine.state} (fingerprint {mine.fingerprint}); there {heard.get('state')} "
            f"(fingerprint {heard.get('fingerprint')}). Build the same model and optimizer in every worker before "
            "creating the state"
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
        """Raises Overtaken if a newer round is announced."""
        if self._overtaken():
            raise Overtaken

    def _pause(self) -> None:
        self.look()
        time.sleep(PAUSE)
