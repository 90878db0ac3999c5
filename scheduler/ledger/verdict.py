"""What was decided last about a gang that waits, and under which circumstances: asking again is of no use while they last.

Written here alone: the others call. Never here: whether the circumstances are the same (engine.equivalence).
"""

from dataclasses import dataclass

from scheduler.model.decision import Refuse, Wait
from scheduler.model.workload import Gang


@dataclass(slots=True)
class Verdict:
    """One gang's."""

    decision: Wait | Refuse | None = None
    """None: it was not asked about yet, or the answer is obsolete."""
    request: Gang | None = None
    """What was asked: another request is asked about at once."""
    room: int = -1
    """The room counter then."""
    victims_version: int = -1
    """The counter of the pods that could be asked to leave, then."""
    version: int = -1
    """The version of the nodes then: what no node can hold is of no use to ask about before it moves."""
    fence: int = 0
    """The number of the reservation that had to be left alone; 0: none."""
    shape: int | None = None
    """The number of the shape (engine.equivalence); None: it compares with no other gang."""
    short: bool = False
    """It would have left before that reservation begins."""
    until: float = float("inf")
    """When time alone makes it worth asking again."""

    def keep(self, decision: Wait | Refuse, request: Gang | None, *, room: int, fence: int) -> None:
        """The planner's answer to this request."""
        self.decision, self.request, self.room, self.fence = decision, request, room, fence
        self.until = float("inf")

    def compare_by(self, shape: int | None, *, short: bool) -> None:
        """Gangs of this shape get the same answer."""
        self.shape, self.short = shape, short

    def valid_while(self, *, victims_version: int, version: int) -> None:
        """The answer counts while none of these moves."""
        self.victims_version, self.version = victims_version, version

    def copy_answer(self, decision: Wait, *, room: int, fence: int, short: bool) -> None:
        """The answer that a gang of this shape got."""
        self.decision, self.room, self.fence, self.short = decision, room, fence, short

    def wait_unasked(self, decision: Wait | None, request: Gang | None, room: int) -> None:
        """It waits without being asked about. decision: None keeps the last one."""
        self.decision, self.request, self.room = decision or self.decision, request, room

    def tell(self, decision: Wait | Refuse | None) -> None:
        """What is told of it, whatever is asked next."""
        self.decision = decision

    def wait_until_cleared(self, decision: Wait) -> None:
        """It waits for this, and is asked about when it no longer does."""
        self.decision, self.request = decision, None

    def forget(self) -> None:
        """It has seats, or what was decided is obsolete."""
        self.decision = self.request = None

    def ask_again(self) -> None:
        """Whatever the circumstances: what was asked is not what would be asked now."""
        self.request = None

    def ask_by(self, until: float) -> None:
        """Time alone makes it worth asking again then."""
        self.until = until

    def tried(self, victims_version: int) -> None:
        """It was asked how room could be made for it, with these pods that could leave."""
        self.victims_version = victims_version

    def try_again(self) -> None:
        """Others may be asked to leave for it, though none is new."""
        self.victims_version = -1

    def is_unlike(self) -> None:
        """It compares with no other gang."""
        self.shape = None
