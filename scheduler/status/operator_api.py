"""What a person may ask to be done: the door through which the service is told.

Lives here: the questions, and the values that answer them. Never here: whether somebody may ask; that is settled
before the desk is called. Every method answers for the replica that acts; others refuse.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.engine.explain import Found
from scheduler.errors import GangwrightError
from scheduler.model.decision import Reason, Shortfall
from scheduler.model.preemption_units import Unit
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey, Pod, Uid


class DeskError(GangwrightError):
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


class Desk(Protocol):
    """What the service does for people. Methods that act raise DeskError when they cannot."""

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
