"""What a person may ask to be done: how the service is told; and why there is no answer.

Lives here: the questions, the values that answer them, and one error that knows its HTTP status. Never here: whether
somebody may ask; that is settled before `OperatorService` is called. Every method of it answers for the replica that acts;
others refuse.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from scheduler.engine.explanation import Found
from scheduler.errors import GangwrightError
from scheduler.model.decision import Reason, Shortfall
from scheduler.model.departures import Defrag
from scheduler.model.preemption_units import Unit
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey, Pod, Uid

AWAY: Final = "the API server cannot be asked who may do this; try again in a moment"
READING: Final = "gangwright is still reading the cluster; try again in a moment"
SLOW: Final = "gangwright could not answer in time; try again in a moment"
NOT_ACTING: Final = "this replica looks on while another one acts; ask that one"


class Problem(GangwrightError):  # noqa: N818 - said so in HTTP too
    """No answer. The text is a sentence that says what would be right; it goes to whoever asked."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


def unknown(text: str) -> Problem:
    """Nobody whom we know."""
    return Problem(401, text, {"WWW-Authenticate": 'Bearer realm="gangwright"'})


def too_often(seconds: float, text: str = "too many requests from here") -> Problem:
    """Not now, and in how many seconds."""
    return Problem(429, text, {"Retry-After": str(max(1, math.ceil(seconds)))})


def reading() -> Problem:
    """Not yet: it began a moment ago."""
    return Problem(503, READING, {"Retry-After": "2"})


class OperatorError(GangwrightError):
    """It cannot be done now; the text says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What would happen to pods that are not there. `seats` are empty when they would have to wait; with `victims`, the
    seats are theirs once these have left.
    """

    reason: Reason
    message: str
    seats: Mapping[Uid, str] = field(default_factory=dict)
    victims: tuple[Unit, ...] = ()
    shortfall: Shortfall | None = None
    start: Estimate | None = None


def cannot_tell(fields: Iterable[str]) -> str:
    """Why there is no yes: there is room by all that the planner models, and these fields are not."""
    return (
        f"cannot tell: {'; '.join(fields)}: the planner does not model this, and kube-scheduler decides by it"
    )


def would_leave(victims: Iterable[Unit]) -> str:
    """How there would be room. It is a dry run: the victims were asked nothing."""
    count = sum(len(unit.uids) for unit in victims)
    return f"gang would preempt {count} pod{'' if count == 1 else 's'}, and start when all of them have left"


@dataclass(frozen=True, slots=True)
class Moved:
    """A gang that was asked to leave a node: with how many pods, and what happens to it."""

    gang: GangKey
    pods: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain began. `done`: nothing of ours is left on the node."""

    done: bool
    moves: tuple[Moved, ...] = ()


class OperatorService(Protocol):
    """What the service does for people. Methods that act raise OperatorError when they cannot."""

    def forecasts(self) -> Mapping[GangKey, Estimate]:
        """When waiting gangs are expected to start; those without an estimate are missing."""

    def victims(self, gang: GangKey) -> Sequence[Unit]:
        """Who would have to leave for this gang, as far as that was worked out."""

    async def inquire(self, gang: GangKey) -> Found:
        """How near this gang is to a seat, and whom room would cost; nothing of one that does not wait."""

    async def simulate(self, pods: Sequence[Pod]) -> Trial:
        """Decide about these pods as if they had just come, and change nothing."""

    async def drain(self, node: str, by: str) -> Drained:
        """Move gangs away from a node, onto seats that were found first. by: who asked, for the log and events."""

    async def find_moves(self) -> Defrag | None:
        """Moves that make room for the first gang that waits; None: no gang waits for room. Nothing changes."""

    def make_moves(self, found: Defrag, by: str) -> None:
        """Begin with these moves, all seats kept. by: as for `drain`."""
