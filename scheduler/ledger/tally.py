"""What happened, counted for metrics. The core does not measure: it counts, and the service reads."""

from collections import Counter
from dataclasses import dataclass, field

from scheduler.model.decision import Quality
from scheduler.model.preemption_units import Preempt
from scheduler.model.workload import GangKey


@dataclass(slots=True)
class Tally:
    """Counters only ever grow; observations are taken away by the reader."""

    pins_broken: Counter[str] = field(default_factory=Counter)
    """By cause."""
    reseats: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    """By reason."""
    victims: Counter[str] = field(default_factory=Counter)
    """Pods that were asked to give way, by kind of unit."""
    lost: float = 0.0
    """Device-seconds of work that they had not saved."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Requests to leave that the API server refused, by kind of failure."""
    waits: list[float] = field(default_factory=list)
    """Seconds from a gang's quorum being there to its being bound."""
    placements: list[Quality] = field(default_factory=list)
    starts: list[tuple[GangKey, float]] = field(default_factory=list)
    """Gangs whose quorum is bound, with when."""

    def preempted(self, preempt: Preempt) -> None:
        """These were asked to leave."""
        for unit in preempt.victims:
            self.victims[unit.kind.name.lower()] += len(unit.uids)
            self.lost += unit.lost

    def drain(self) -> tuple[list[float], list[Quality]]:
        taken = (self.waits, self.placements)
        self.waits, self.placements = [], []
        return taken
