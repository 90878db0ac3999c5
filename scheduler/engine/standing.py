"""Answers of earlier passes that still hold, in the current snapshot.

Lives here: which capacity a waiting gang may use (all that is free, or what the reservation leaves), and the answers that
are known for it. Never here: how an answer is checked (placement.standing_answers), or who gets it (equivalence).
"""

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.engine.equivalence import KEPT, KnownAnswers, Shapes
from scheduler.engine.head import QueueHead
from scheduler.engine.planning import Question
from scheduler.ledger import Ledger
from scheduler.model.cluster import Snapshot
from scheduler.model.decision import Wait
from scheduler.model.queueing import Reservation
from scheduler.placement import reservation
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.standing_answers import StandingAnswers

DEMANDS: Final = 16
"""New demands that are counted between two turns of the event loop, in 2 to 3 milliseconds on 15,000 nodes."""

PORTION: Final = 64
"""Answers that are renewed between two turns of the event loop, in 1 to 3 milliseconds on 15,000 nodes."""


class Standing:
    """What is known of the shapes of waiting gangs."""

    def __init__(
        self,
        ledger: Ledger,
        shapes: Shapes,
        head: QueueHead,
        snapshot: Callable[[], Snapshot],
        masks: FeasibilityCache,
    ) -> None:
        self.kept: StandingAnswers | None = None
        self._ledger = ledger
        self._shapes = shapes
        self._head = head
        self._snapshot = snapshot
        self._masks = masks
        self._left: tuple[Snapshot, Reservation, Snapshot] | None = None
        self._prepared: tuple[Snapshot | None, Reservation | None] = (None, None)
        """For these, answers were renewed in portions."""

    def beside(self, snapshot: Snapshot, reserved: Reservation) -> Snapshot:
        """The snapshot without what is reserved, cached."""
        if self._left is None or self._left[0] is not snapshot or self._left[1] is not reserved:
            self._left = snapshot, reserved, reservation.beside(snapshot, reserved, None)
        return self._left[2]

    def told(self, fence: int) -> tuple[KnownAnswers, KnownAnswers]:
        """The answers that hold until more capacity is free: for gangs that are not short of the fence, and short."""
        nodes = self._ledger.nodes
        return self._shapes.answers(
            (nodes.room_version, nodes.version), fence, nodes.generation, self._answers
        )

    def known(self, question: Question) -> Wait | None:
        """The answer to this question, if no planner is needed."""
        if question.shape is None or question.making is not None:
            return None
        return self.told(question.fence)[question.short].alike.get(question.shape)

    def _answers(self, fence: int, short: bool, most: int | None = None) -> dict[int, Wait]:
        """The earlier answers that hold for gangs under this fence (0: none), by shape.

        short: they end before it.  most: renew only so many answers.
        """
        snapshot, reserved = self._snapshot(), self._head.reserved
        if self.kept is None or not self.kept.follow(snapshot):
            return {}
        if not fence or short:
            found = self.kept.free(snapshot, most)
        elif reserved is None or fence != self._head.fence()[0]:
            return {}
        else:
            found = self.kept.behind(snapshot, self.beside(snapshot, reserved).free, reserved.key, most)
        for shape, gang in self.kept.labeled.items():
            if shape in found and self._ledger.neighbors.concerns(gang):
                del found[shape]
        return found

    def prepare(self) -> Iterator[None]:
        """Renew the answers in portions, before a question needs all of them at once. It yields after each portion.

        What changes meanwhile is renewed, too. But this ends: after so many portions, the rest is left to the question.
        """
        kept, snapshot, (prepared, reserved) = self.kept, self._snapshot(), self._prepared
        same = prepared is snapshot and reserved is self._head.reserved
        if kept is None or same or not self._ledger.pending:
            return
        if kept.snapshot.nodes_version != snapshot.nodes_version:
            self._masks.changes(kept.snapshot, snapshot)
            yield
            holds = kept.follow(self._snapshot())
            yield
            if not holds:
                return
        while kept.extend(DEMANDS):
            yield
        for behind in (False, True):
            for _ in range(2 + 2 * len(kept) // PORTION):
                fence = self._head.fence()[0] if behind else 0
                if self.kept is not kept or (behind and not fence):
                    break
                self._answers(fence, short=False, most=PORTION)
                if not kept.stale(behind=behind):
                    break
                yield
        self._prepared = kept.snapshot, self._head.reserved

    def learn(self, question: Question, shape: int, answer: Wait) -> None:
        """The planner's answer about this shape, in the current snapshot."""
        snapshot = self._snapshot()
        most = max(KEPT, 4 * len(self._ledger.pending))  # beyond that, most are of gangs that no longer wait
        if self.kept is None or self.kept.is_full(most) or not self.kept.follow(snapshot):
            self.kept = StandingAnswers(snapshot, self._masks)
        self.kept.learn(shape, question.gang, question.snapshot, question.kept, answer)
