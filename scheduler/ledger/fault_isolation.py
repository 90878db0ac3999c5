"""A fault in one gang stops no other gang.

Lives here: the reaction when a step fails on a gang. The gang is rejected with a reason, counted, and retried later.
Never here: the log (the service writes it, with traceback).
"""

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
"""Seconds until a gang is retried after an internal error: enough for its next change to arrive."""

LONGEST: Final = 300.0
"""Maximum seconds until it is retried. The delay doubles with each failure."""

FAILED: Final = (
    "Gangwright hit an internal error on this gang and retries; report the traceback in its log as a bug"
)


def broke(cache: Cache, key: GangKey | None, error: Exception, now: float) -> None:
    """A step failed on this gang. Until the retry it leaves the queue and keeps its seats.

    Meanwhile it blocks no other serial gang, because its state is unknown.
    """
    record = None if key is None else cache.registry.gangs.get(key)
    if record is not None and now > record.rests_until + LONGEST:
        record.faults = 0  # it was fine for a long time
    cache.faults.note(Fault(key, error, again=record is not None and record.faults > 0))
    if record is None:
        return
    if record.rests_until <= now:  # otherwise it is reported already
        cache.mark_told(record.key)
        record.rests_until = now + doubled(FIRST, record.faults, LONGEST)
        record.faults += 1
    cache.wake(record.key, record.rests_until)
    if (live := list(record.live())) and not any(m.bound or m.hold for m in live):
        record.state = State.REFUSED
        cache.registry.note_change(record.key)
    record.spec = refusal = Refuse(Reason.INVALID_SPEC, "gang", record.key.name, FAILED)
    record.verdict.tell(refusal)
    cache.pending.note(record, None, now)
    cache.pending.close(record.key)


def is_refused(record: GangRecord) -> bool:
    """Its last reconciliation or planning failed."""
    return isinstance(record.spec, Refuse) and record.spec.remedy is FAILED


class Guard:
    """An exception in this block is the fault of this gang only. A class, because every gang passes several of them."""

    __slots__ = ("_cache", "_key", "_now")

    def __init__(self, cache: Cache, key: GangKey | None, now: float) -> None:
        self._cache, self._key, self._now = cache, key, now

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        broke(self._cache, self._key, error, self._now)
        return True


def gang_of(cache: Cache, event: ev.Event) -> GangKey | None:
    """The gang that this event is about, if it is known."""
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
