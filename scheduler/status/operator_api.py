"""Actions of users, their interface to the service, and errors.

Lives here: the actions, their results, and one error that knows its HTTP status. Never here: access control, which
happens before `OperatorService` is called. Only the active replica carries out its methods; others reject them.
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

AWAY: Final = "the API server does not answer, so your rights cannot be checked; try again in a moment"
READING: Final = "Gangwright is still reading the cluster; try again in a moment"
SLOW: Final = "Gangwright did not answer in time; try again in a moment"
NOT_ACTING: Final = "this is a standby replica; ask the active one"


class Problem(GangwrightError):  # noqa: N818 - the HTTP term
    """An error for the caller. The text is a sentence that names the fix."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


def unknown(text: str) -> Problem:
    """The error for a caller without valid credentials."""
    return Problem(401, text, {"WWW-Authenticate": 'Bearer realm="gangwright"'})


def too_often(seconds: float, text: str = "too many requests from here") -> Problem:
    """The error for too many requests. seconds: until the next one is accepted."""
    return Problem(429, text, {"Retry-After": str(max(1, math.ceil(seconds)))})


def reading() -> Problem:
    """The error while Gangwright is still starting."""
    return Problem(503, READING, {"Retry-After": "2"})


class OperatorError(GangwrightError):
    """The action is not possible now. The text names the reason and the fix."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a dry run. `seats` is empty if the pods would have to wait. With `victims`, the seats apply once
    these have terminated.
    """

    reason: Reason
    message: str
    seats: Mapping[Uid, str] = field(default_factory=dict)
    victims: tuple[Unit, ...] = ()
    shortfall: Shortfall | None = None
    start: Estimate | None = None


def cannot_tell(fields: Iterable[str]) -> str:
    """Why a dry run has no answer: the pods fit by all that the planner models, but it does not model these fields."""
    return (
        f"cannot tell: {'; '.join(fields)}: the planner does not model this, but kube-scheduler decides by it"
    )


def would_leave(victims: Iterable[Unit]) -> str:
    """How capacity would be freed. In a dry run nothing is evicted."""
    count = sum(len(unit.uids) for unit in victims)
    return f"the gang would preempt {count} pod{'' if count == 1 else 's'} and start when all of them have terminated"


@dataclass(frozen=True, slots=True)
class Moved:
    """A gang that a drain covers: its number of pods on the node, and their outcome."""

    gang: GangKey
    pods: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of a drain. `done`: no pods of gangs are left on the node."""

    done: bool
    moves: tuple[Moved, ...] = ()


class OperatorService(Protocol):
    """The service's actions for users. Methods that act raise OperatorError if they cannot."""

    def forecasts(self) -> Mapping[GangKey, Estimate]:
        """When pending gangs are expected to start. Gangs without an estimate are missing."""

    def victims(self, gang: GangKey) -> Sequence[Unit]:
        """The victims for this gang, as far as they are known."""

    async def inquire(self, gang: GangKey) -> Found:
        """How close this gang is to a placement, and its potential victims; empty if it does not wait."""

    async def simulate(self, pods: Sequence[Pod]) -> Trial:
        """Decide about these pods as if they had just been created, without changes."""

    async def drain(self, node: str, by: str) -> Drained:
        """Move gangs away from a node, to nodes that are reserved first. by: the user, for the log and events."""

    async def find_moves(self) -> Defrag | None:
        """Moves that free capacity for the first pending gang; None: no gang waits for capacity. Changes nothing."""

    def make_moves(self, found: Defrag, by: str) -> None:
        """Start these moves, with all seats reserved. by: as for `drain`."""
