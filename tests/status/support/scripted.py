"""An operator that does as a test says."""

from dataclasses import dataclass, field
from typing import Any

from scheduler.engine.explanation import Found
from scheduler.model.decision import Reason, Shortfall
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey
from scheduler.status.operator_api import Drained, Moved, OperatorError, Trial


@dataclass
class Scripted:
    """An operator that does as the test says, and remembers what it was asked."""

    asked: list[Any] = field(default_factory=list)
    refuses: str = ""

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

    def _note(self, *what):
        if self.refuses:
            raise OperatorError(self.refuses)
        self.asked.append(what)
