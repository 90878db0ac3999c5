"""What became of effects, gang by gang.

Lives here: whose outcome it is. Never here: when an effect is done again (care, freeing, plans).
"""

from typing import TYPE_CHECKING

from scheduler.ledger import care, freeing, pods
from scheduler.ledger.records import GangRecord
from scheduler.model.effects import Effect, Evict, SuspendJob
from scheduler.model.events import EffectFailed, FailureKind

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger


def done(record: GangRecord, effect: Effect, now: float) -> None:
    """It came true."""
    if record.plan is not None and record.plan.outstanding.pop(effect, None) is not None:
        failed = record.failed
        if failed is not None and (failed.uid == effect.uid or failed.plan != record.plan.name):
            record.failed = None
    if _asks_a_victim(record, effect):
        freeing.answered(record, effect.uid, None, now)


def failed(ledger: "Ledger", record: GangRecord, event: EffectFailed, now: float) -> None:
    """It did not, and perhaps never will."""
    effect, kind = event.effect, event.kind
    if _asks_a_victim(record, effect):
        ledger.tally.refusals[kind] += 1
        freeing.answered(record, effect.uid, kind, now)
    if kind is FailureKind.NOT_FOUND:
        if record.plan is not None:
            record.plan.outstanding.pop(effect, None)
        if not isinstance(effect, SuspendJob):
            pods.forget(ledger, effect.uid)
    elif isinstance(effect, Evict):
        care.eviction_failed(record, effect, kind, now)
    else:
        care.effect_failed(ledger, record, event, now)


def _asks_a_victim(record: GangRecord, effect: Effect) -> bool:
    asks = isinstance(effect, Evict | SuspendJob)
    return asks and record.plan is not None and effect.uid in record.plan.victims
