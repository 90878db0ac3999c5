"""What went wrong on single gangs, for the service to log. Never here: what follows for such a gang (fault_isolation)."""

from dataclasses import dataclass

from scheduler.model.workload import GangKey


@dataclass(frozen=True, slots=True)
class Fault:
    """A step failed on this gang; None: on an object of no gang that is known."""

    gang: GangKey | None
    error: Exception
    again: bool
    """One failed on this gang not long before."""


class Faults:
    """What went wrong, for the service to log."""

    def __init__(self) -> None:
        self.total = 0
        self._untold: list[Fault] = []

    def note(self, fault: Fault) -> None:
        """A step failed."""
        self.total += 1
        self._untold.append(fault)

    def drain(self) -> list[Fault]:
        """What was noted since."""
        untold, self._untold = self._untold, []
        return untold

    def check(self) -> list[str]:
        """For tests: what no test may bring about by chance."""
        return [f"a step failed on {fault.gang}: {fault.error!r}" for fault in self._untold]
