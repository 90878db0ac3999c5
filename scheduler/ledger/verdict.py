"""The last decision about a waiting gang, and its circumstances: asking again is useless until they change.

Only this module writes it; others call. Never here: whether the circumstances are unchanged (engine.equivalence).
"""

from dataclasses import dataclass

from scheduler.model.decision import Refuse, Wait
from scheduler.model.workload import Gang


@dataclass(slots=True)
class Verdict:
    """The verdict of one gang."""

    decision: Wait | Refuse | None = None
    """None: it was not asked about yet, or the answer is obsolete."""
    request: Gang | None = None
    """The request that was answered. A different request is asked at once."""
    room: int = -1
    """The room version at that time."""
    victims_version: int = -1
    """The version of preemption candidates at that time."""
    version: int = -1
    """The version of the nodes at that time. Requests that no node can fit are not retried before it changes."""
    fence: int = 0
    """The number of the reservation that it had to respect; 0: none."""
    shape: int | None = None
    """The number of the shape (engine.equivalence); None: it is comparable to no other gang."""
    short: bool = False
    """It would have ended before that reservation starts."""
    until: float = float("inf")
    """When time alone justifies a retry."""

    def keep(self, decision: Wait | Refuse, request: Gang | None, *, room: int, fence: int) -> None:
        """Store the planner's answer to this request."""
        self.decision, self.request, self.room, self.fence = decision, request, room, fence
        self.until = float("inf")

    def compare_by(self, shape: int | None, *, short: bool) -> None:
        """Gangs of this shape get the same answer."""
        self.shape, self.short = shape, short

    def valid_while(self, *, victims_version: int, version: int) -> None:
        """The answer is valid until one of these changes."""
        self.victims_version, self.version = victims_version, version

    def copy_answer(self, decision: Wait, *, room: int, fence: int, short: bool) -> None:
        """Copy the answer that a gang of this shape got."""
        self.decision, self.room, self.fence, self.short = decision, room, fence, short

    def wait_unasked(self, decision: Wait | None, request: Gang | None, room: int) -> None:
        """It waits without being asked about. decision: None keeps the last one."""
        self.decision, self.request, self.room = decision or self.decision, request, room

    def tell(self, decision: Wait | Refuse | None) -> None:
        """Set the reported decision, regardless of later requests."""
        self.decision = decision

    def wait_until_cleared(self, decision: Wait) -> None:
        """It waits for this, and is asked about when that no longer holds."""
        self.decision, self.request = decision, None

    def forget(self) -> None:
        """It has seats, or the decision is obsolete."""
        self.decision = self.request = None

    def ask_again(self) -> None:
        """Ask again: the request would differ now."""
        self.request = None

    def ask_by(self, until: float) -> None:
        """Time alone justifies a retry then."""
        self.until = until

    def tried(self, victims_version: int) -> None:
        """Preemption was tried for it with these candidates."""
        self.victims_version = victims_version

    def try_again(self) -> None:
        """Preemption may be tried again, although no candidate is new."""
        self.victims_version = -1

    def is_unlike(self) -> None:
        """It is comparable to no other gang."""
        self.shape = None
