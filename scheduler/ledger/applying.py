"""A gang as the order of the queue looks at it."""

from scheduler.ledger import attained_service, observed_runs
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord
from scheduler.model.queueing import Order, Waiting
from scheduler.model.workload import Gang


def as_waiting(cache: Cache, record: GangRecord, wanted: Gang) -> Waiting:
    """All that decides about the turn of this gang; what the order in force does not look at is not worked out."""
    order = cache.policy.order
    return Waiting(
        wanted,
        record.arrived,
        first=record.partly_bound and not record.grew,
        attained=attained_service.before(record, cache.owners) if order is Order.LAS else 0.0,
        born=attained_service.born(record, cache.owners) if order is Order.LAS else None,
        runs=observed_runs.expect(cache, record) if order is Order.SHORTEST else None,
    )
