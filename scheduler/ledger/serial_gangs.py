"""Gangs about which kube-scheduler decides by rules that the planner does not model: they are let go one at a time.

Such a gang is seated by its room alone, and what kube-scheduler refuses is learned when the gates are gone. Two of them
side by side may each get half of what only one can have. Lives here: which of them is under way or stands torn, so that
the others wait. Never here: the rollback of one that is refused (care).
"""

from scheduler.ledger.gang import GangRecord, Step
from scheduler.ledger.phase import STANDS, Facts
from scheduler.model.workload import GangKey


class Singly:
    """The gangs of that kind that have some of their seats and not all. After a restart they are read off the pods."""

    def __init__(self) -> None:
        self._open: dict[GangKey, None] = {}

    def before(self, record: GangRecord) -> GangKey | None:
        """The gang that this one lets pass; None: none. One that is bound in part or whole waits for no other."""
        if not record.unmodelled or record.partly_bound or record.state in STANDS:
            return None
        return next((key for key in self._open if key != record.key), None)

    def note(self, record: GangRecord, facts: Facts) -> bool:
        """Take in where this gang is now, after its state was worked out. Whether it holds up others no more."""
        # A bound pod tells no more what it asks of nodes, so a torn gang stays what it was.
        kept = record.unmodelled and facts.bound > 0
        record.unmodelled = facts.quorum > 1 and (kept or any(m.pod.unmodelled for m in record.live()))
        short = record.unmodelled and facts.bound < facts.quorum and not record.was_bound
        if short and (facts.bound > 0 or _is_on_its_way(record)):
            self._open[record.key] = None
            return False
        return self.close(record.key)

    def close(self, key: GangKey) -> bool:
        """This gang is whole, has given everything back, or is no more. Whether it held up others until now."""
        if key not in self._open:
            return False
        del self._open[key]
        return True


def _is_on_its_way(record: GangRecord) -> bool:
    """It has seats that end with its plan, its pods or its pins."""
    planned = record.plan is not None and record.plan.step is not Step.DONE
    return planned or any(m.hold is not None and m.hold.until is None for m in record.live())
