"""When a gang began, and how long it ran: read off its pods, and taught to the memory of runtimes.

Lives here: what counts as a run. Never here: what is expected of the next one (runtimes).
"""

from typing import TYPE_CHECKING, Final

from scheduler.ledger.lifecycle import State
from scheduler.ledger.records import GangRecord, Spec
from scheduler.ledger.runtimes import LIE
from scheduler.model.workload import Phase

if TYPE_CHECKING:
    from scheduler.ledger.ledger import Ledger

MARGIN: Final = 0.01
"""Of what was declared, beyond LIE times it: the clock of the API server counts whole seconds."""


def kind(record: GangRecord) -> str:
    """The kind of the controller that makes its pods; empty where nobody does."""
    return next((m.pod.owner.kind for m in record.members.values() if m.pod.owner is not None), "")


def declared(record: GangRecord) -> float | None:
    """The runtime that it declares, in seconds."""
    return record.spec.wish.expected_runtime if isinstance(record.spec, Spec) else None


def doubted_at(record: GangRecord) -> float:
    """When a gang that runs on has run so much longer than declared that its owner is believed no more; infinity: never,
    or it is known.
    """
    says = declared(record)
    if record.since is None or record.doubted or says is None or says <= 0:
        return float("inf")
    return record.since + (LIE + MARGIN) * says


def keep(ledger: "Ledger", record: GangRecord, now: float) -> None:
    """Remember when its quorum was whole, and what it took when it has ended."""
    if record.state in {State.BOUND, State.RUNNING}:
        if record.since is None:
            record.since = _began(record, now)
        if isinstance(record.spec, Spec):
            record.said = record.spec.wish.expected_runtime
        if record.said is not None and now >= doubted_at(record):
            record.doubted = True
            ledger.runtimes.overran(record.key.namespace, kind(record), record.said, now - record.since)
    elif record.since is not None:
        if record.state is State.LEAVING and _succeeded(record):
            ran = now - record.since
            ledger.runtimes.ended(record.key.namespace, kind(record), len(record.members), record.said, ran)
        record.since, record.said, record.doubted = None, None, False


def _began(record: GangRecord, now: float) -> float:
    """The last of the binds, where all pods tell theirs."""
    times = [m.pod.bound_at for m in record.live() if m.bound]
    known = [at for at in times if at is not None]
    return min(max(known), now) if known and len(known) == len(times) else now


def _succeeded(record: GangRecord) -> bool:
    return all(m.pod.phase is Phase.SUCCEEDED for m in record.members.values())
