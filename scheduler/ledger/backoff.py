"""Exponential backoff: each retry waits twice as long as the last, up to a limit.

Lives here: when a failed effect is retried, and how a gang backs off after a failed attempt. Never here: why an attempt
failed.
"""

from collections.abc import Mapping
from typing import Final

from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import Reason, Wait
from scheduler.model.durations import doubled
from scheduler.model.events import FailureKind
from scheduler.model.policy import Policy

RETRY_AFTER: Final[Mapping[FailureKind, float]] = {
    **dict.fromkeys(FailureKind, 1.0),
    FailureKind.BUDGET: 5.0,
    FailureKind.FORBIDDEN: 3.0,
}
"""Seconds until an effect that failed this way is retried. A disruption budget changes slowly, and an API server that
forbids a write may still be loading the policies that allow it."""

_BACKING_OFF: Final = Wait(Reason.BACKING_OFF)


def begin(record: GangRecord, policy: Policy, now: float) -> None:
    """Delay the gang's next attempt, twice as long each time."""
    record.backoff.not_before = now + doubled(policy.backoff, record.backoff.tries, policy.backoff_limit)
    record.backoff.tries += 1
    record.verdict.wait_until_cleared(_BACKING_OFF)


def note(record: GangRecord, now: float) -> None:
    """Report the backoff as the reason for waiting while it lasts, also after a restart of the gang."""
    if record.verdict.decision is None and record.backoff.not_before > now:
        record.verdict.wait_until_cleared(_BACKING_OFF)
    elif record.verdict.decision == _BACKING_OFF and record.backoff.not_before <= now:
        record.verdict.forget()


def wait_until(record: GangRecord, at: float) -> None:
    """Don't plan the gang before this time."""
    record.backoff.not_before = max(record.backoff.not_before, at)


def reset(record: GangRecord) -> None:
    """An attempt succeeded: the next failure counts as the first one."""
    record.backoff.tries, record.backoff.not_before = 0, float("-inf")
