"""What befell a gang before it came to where it is now: the gang that it gave way to last. Pure.

The ledger remembers it until a restart, also when the gang is made again under its name. After that, and where the
cluster is read without the service, pods that are still there tell it by their condition.
"""

from scheduler.ledger.gang import GangRecord
from scheduler.status import response_schemas
from scheduler.status.authorization import Sight


def preempted(record: GangRecord, sight: Sight) -> response_schemas.PreemptedRow | None:
    """The gang that it gave way to last; None where that is not known, or it never did."""
    said = [m.pod.preempted for m in record.members.values() if m.pod.preempted is not None]
    words, known = max(said, key=lambda own: own.at, default=None), record.preemption.gave_way
    message = words.words if words is not None else None
    if known is None:
        return (
            None
            if words is None
            else response_schemas.PreemptedRow(None, None, None, None, message, words.at)
        )
    sees = sight.sees(known.gang)
    return response_schemas.PreemptedRow(
        id=sight.alias(known.gang),
        namespace=known.gang.namespace if sees else None,
        gang=known.name if sees else None,
        priority=known.priority,
        message=message,
        at=known.at,
    )
