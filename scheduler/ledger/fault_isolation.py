"""One gang's fault stops no other gang.

Lives here: what follows where a step of ours fails on a gang. It is refused with a reason, counted, and looked at again
after a while. Never here: the log (the service writes it, traceback and all).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scheduler.ledger.cache import Cache
from scheduler.ledger.counts import Fault
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.phase import State
from scheduler.model import events as ev
from scheduler.model.decision import Reason, Refuse
from scheduler.model.durations import doubled
from scheduler.model.workload import GangKey

FIRST: Final = 5.0
"""Seconds until a gang at which we failed is looked at again: enough for its next change to arrive."""

LONGEST: Final = 300.0
"""Seconds after which it is looked at again, however often we failed; each time takes twice as long until then."""

FAILED: Final = (
    "Gangwright hit an internal error on this gang and retries; report the traceback in its log as a bug"
)


def broke(cache: Cache, key: GangKey | None, error: Exception, now: float) -> None:
    """A step failed on this gang: until it is looked at again it is out of the queue, and keeps the seats it has.

    Meanwhile it holds up no other gang that goes singly: how it stands is not worked out.
    """
    record = None if key is None else cache.registry.gangs.get(key)
    if record is not None and now > record.rests_until + LONGEST:
        record.faults = 0  # it was well for long
    cache.faults.note(Fault(key, error, again=record is not None and record.faults > 0))
    if record is None:
        return
    if record.rests_until <= now:  # else it is told already
        cache.mark_told(record.key)
        record.rests_until = now + doubled(FIRST, record.faults, LONGEST)
        record.faults += 1
    cache.wake(record.key, record.rests_until)
    if (live := list(record.live())) and not any(m.bound or m.hold for m in live):
        record.state = State.REFUSED
    record.spec = refusal = Refuse(Reason.INVALID_SPEC, "gang", record.key.name, FAILED)
    record.verdict.tell(refusal)
    cache.pending.note(record, None, now)
    cache.pending.close(record.key)


def is_refused(record: GangRecord) -> bool:
    """A step failed on it when it was looked at last, or asked about."""
    return isinstance(record.spec, Refuse) and record.spec.remedy is FAILED


@contextmanager
def guard(cache: Cache, key: GangKey | None, now: float) -> Iterator[None]:
    """What fails in here is the fault of this gang alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it was, the others go on
        broke(cache, key, error, now)


def gang_of(cache: Cache, event: ev.Event) -> GangKey | None:
    """The gang that this event is about, as far as it tells."""
    match event:
        case ev.EffectDone() | ev.EffectFailed():
            return event.effect.gang
        case ev.Decided() | ev.VictimsChosen():
            return event.gang.key
        case ev.MoveFound():
            return event.gang
        case ev.PodSeen():
            return cache.registry.gang_of.get(event.pod.uid)
        case ev.PodGone() | ev.Asked() | ev.Scored():
            return cache.registry.gang_of.get(event.uid)
        case _:
            return None
