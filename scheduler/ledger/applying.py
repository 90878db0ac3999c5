"""A gang as the order of the queue looks at it."""

from typing import TYPE_CHECKING

from scheduler.ledger import attained, history
from scheduler.ledger.records import GangRecord
from scheduler.model.queueing import Order, Waiting
from scheduler.model.workload import Gang

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger


def as_waiting(ledger: "Ledger", record: GangRecord, wanted: Gang) -> Waiting:
    """All that decides about the turn of this gang; what the order in force does not look at is not worked out."""
    order = ledger.policy.order
    return Waiting(
        wanted,
        record.arrived,
        first=record.partly_bound and not record.grew,
        attained=attained.before(record, ledger.owners) if order is Order.LAS else 0.0,
        born=attained.born(record, ledger.owners) if order is Order.LAS else None,
        runs=history.expect(ledger, record) if order is Order.SHORTEST else None,
    )
