"""An operator that does as a test says."""

from dataclasses import dataclass, field
from typing import Any

from scheduler.engine.explanation import Found
from scheduler.model.decision import Reason, Shortfall
from scheduler.model.departures import Defrag
from scheduler.model.events import MoveFound
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey, gang_of_one
from scheduler.status.operator_api import Drained, Moved, OperatorError, Trial
from tests.engine.support.cast import a_pod

HUGE = GangKey("team-b", "huge")


@dataclass
class Scripted:
    """An operator that does as the test says, and remembers what it was asked."""

    asked: list[Any] = field(default_factory=list)
    refuses: str = ""
    moves: str = "found"
    """Whether moves that make room are `found`, or would be in `vain`; `none`: no gang waits."""

    def forecasts(self):
        return {GangKey("team-b", "huge"): Estimate(100.0, 50.0, 200.0)}

    def victims(self, gang):
        return ()

    async def inquire(self, gang):
        return Found((Shortfall(10, "1 nvidia.com/gpu", "rack", "a0/r1", 4, {}),))

    async def simulate(self, pods):
        self._note("simulate", pods)
        return Trial(Reason.SEATED, "it would start now", {pod.uid: "a0-r0-n0" for pod in pods})

    async def drain(self, node, by):
        self._note("drain", node, by)
        moves = (Moved(GangKey("team-a", "train"), 2, "moves to other seats"),)
        return Drained(done=False, moves=moves)

    async def find_moves(self):
        head = a_pod("huge-0", namespace="team-b", uid="huge")
        pods = {head.uid: head}
        if self.moves == "none":
            return None
        if self.moves == "vain":
            return Defrag(HUGE, told="nothing helps", pods=pods)
        own = a_pod("solo", namespace="team-a", uid="solo", node="a0-r0-n0")
        move = MoveFound(gang_of_one("team-a", own.uid), {own.uid: "a1-r0-n0"}, (own.uid,), whole=True)
        return Defrag(HUGE, {head.uid: "a0-r0-n0"}, (move,), pods=pods | {own.uid: own})

    def make_moves(self, found, by):
        self._note("defrag", found.gang.name, by)

    def _note(self, *what):
        if self.refuses:
            raise OperatorError(self.refuses)
        self.asked.append(what)
