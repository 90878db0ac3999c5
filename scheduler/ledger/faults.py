"""One gang's fault stops no other gang.

Lives here: what follows where a step of ours fails on a gang. It is refused with a reason, counted, and looked at again
after a while. Never here: the log (the service writes it, traceback and all).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.ledger.backoff import doubled
from scheduler.ledger.lifecycle import State
from scheduler.ledger.records import GangRecord
from scheduler.model import events as ev
from scheduler.model.decision import Reason, Refuse
from scheduler.model.workload import GangKey

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger

FIRST: Final = 5.0
"""Seconds until a gang at which we failed is looked at again: enough for its next change to arrive."""

LONGEST: Final = 300.0
"""Seconds after which it is looked at again, however often we failed; each time takes twice as long until then."""

FAILED: Final = (
    "gangwright failed on this gang and tries again; please report this, with the traceback in its log"
)


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


def broke(ledger: "Ledger", key: GangKey | None, error: Exception, now: float) -> None:
    """A step failed on this gang: until it is looked at again it is out of the queue, and keeps the seats it has.

    Meanwhile it holds up no other gang that goes singly: how it stands is not worked out.
    """
    record = None if key is None else ledger.roll.gangs.get(key)
    if record is not None and now > record.rests_until + LONGEST:
        record.faults = 0  # it was well for long
    ledger.faults.note(Fault(key, error, again=record is not None and record.faults > 0))
    if record is None:
        return
    if record.rests_until <= now:  # else it is told already
        ledger.mark_told(record.key)
        record.rests_until = now + doubled(FIRST, record.faults, LONGEST)
        record.faults += 1
    ledger.wake(record.key, record.rests_until)
    if (live := list(record.live())) and not any(m.bound or m.hold for m in live):
        record.state = State.REFUSED
    record.spec = record.verdict = Refuse(Reason.INVALID, "gang", record.key.name, FAILED)
    ledger.wanting.note(record, None, now)
    ledger.wanting.singly.close(ledger, record.key)


def is_refused(record: GangRecord) -> bool:
    """A step failed on it when it was looked at last, or asked about."""
    return isinstance(record.spec, Refuse) and record.spec.remedy is FAILED


@contextmanager
def guard(ledger: "Ledger", key: GangKey | None, now: float) -> Iterator[None]:
    """What fails in here is the fault of this gang alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it was, the others go on
        broke(ledger, key, error, now)


def gang_of(ledger: "Ledger", event: ev.Event) -> GangKey | None:
    """The gang that this event is about, as far as it tells."""
    match event:
        case ev.EffectDone() | ev.EffectFailed():
            return event.effect.gang
        case ev.Decided() | ev.Freed():
            return event.gang.key
        case ev.MoveFound():
            return event.gang
        case ev.PodSeen():
            return ledger.roll.gang_of.get(event.pod.uid)
        case ev.PodGone() | ev.Asked() | ev.Scored():
            return ledger.roll.gang_of.get(event.uid)
        case _:
            return None
