"""Each try waits twice as long as the one before, up to a limit.

Lives here: how soon a failed effect is done again, and how a gang that was tried in vain backs off. Never here: why a try was in vain.
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
"""Seconds until an effect that failed for this is done again. A disruption budget changes slowly; an API server
that refuses may still be reading the policies that allow us what we do.
"""


def begin(record: GangRecord, policy: Policy, now: float) -> None:
    """The gang is not planned for a while, twice as long with every try."""
    record.backoff.not_before = now + doubled(policy.backoff, record.backoff.tries, policy.backoff_limit)
    record.backoff.tries += 1
    record.verdict.wait_until_cleared(Wait(Reason.BACKING_OFF))


def note(record: GangRecord, now: float) -> None:
    """That it backs off is why it waits, also where it was restarted rather than late; and no longer than it does."""
    if record.verdict.decision is None and record.backoff.not_before > now:
        record.verdict.wait_until_cleared(Wait(Reason.BACKING_OFF))
    elif record.verdict.decision == Wait(Reason.BACKING_OFF) and record.backoff.not_before <= now:
        record.verdict.forget()


def wait_until(record: GangRecord, at: float) -> None:
    """The gang is not planned before, whatever else it waits for."""
    record.backoff.not_before = max(record.backoff.not_before, at)


def reset(record: GangRecord) -> None:
    """A try came true: the next one in vain is a first one."""
    record.backoff.tries, record.backoff.not_before = 0, float("-inf")
