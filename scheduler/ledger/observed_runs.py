"""When a gang started and how long it ran, derived from its pods and added to the memory of runtimes.

Lives here: what counts as a run, and queries to that memory. Never here: its answers (runtimes).
"""

from typing import Final, NamedTuple

from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.gang_parts import UNASKED
from scheduler.ledger.phase import QUORUM_BOUND, State
from scheduler.ledger.runtimes import LIE, Reach, Run
from scheduler.model.queueing import Estimate
from scheduler.model.workload import Phase, PodKey

MARGIN: Final = 0.01
"""Tolerance relative to the declaration, beyond LIE times it: the API server's clock counts whole seconds."""


def kind(record: GangRecord) -> str:
    """The kind of the controller that creates its pods. Empty if none does."""
    return next((m.pod.owner.kind for m in record.members.values() if m.pod.owner is not None), "")


CREDITED: Final = frozenset(
    {
        "Job",
        "StatefulSet",
        "ReplicaSet",
        "ReplicationController",
        "DaemonSet",
        "PyTorchJob",
        "MPIJob",
        "ElasticJob",
    }
)
"""Kinds of owners with a memory of their own for their gangs, in each namespace."""


FOREVER: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"})
"""Kinds of owners with pods that don't end on their own."""


def creditor(record: GangRecord) -> str:
    """The kind under which its runtimes are recorded. All other kinds share one memory with pods without an owner.

    Otherwise a tenant could write a new kind into `ownerReferences` and be trusted again each time.
    """
    own = kind(record)
    return own if own in CREDITED else ""


def declared(record: GangRecord) -> float | None:
    """The declared runtime in seconds. If no remaining pod declares one, the declaration at its start."""
    says = record.spec.wish.expected_runtime if isinstance(record.spec, Spec) else None
    return record.observed.promised if says is None else says


def limit(record: GangRecord) -> float | None:
    """The seconds after which it is ended, as its pods request; None: unlimited."""
    span = record.spec.wish.max_runtime if isinstance(record.spec, Spec) else None
    return None if span is None or PodKey(*record.key).off_limits else span


def doubted_at(record: GangRecord) -> float:
    """When a running gang exceeds its declaration so far that its owner is no longer trusted. Infinity if never, or if
    already known.
    """
    says = declared(record)
    if record.observed.since is None or record.observed.doubted or says is None or says <= 0:
        return float("inf")
    return record.observed.since + (LIE + MARGIN) * says


def keep(cache: Cache, record: GangRecord, now: float) -> None:
    """Record when its quorum was complete, and its runtime when it has ended."""
    record.observed.run, record.observed.reach = None, UNASKED  # members may declare something else now
    if record.state in QUORUM_BOUND:
        if record.observed.since is None:
            record.observed.since, record.observed.promised = _began(record, now), declared(record)
        says = declared(record)
        if says is not None and now >= doubted_at(record):
            record.observed.doubted = True
            cache.runtimes.overran(record.key.namespace, creditor(record), says, now - record.observed.since)
    elif record.observed.since is not None:
        if record.state is State.LEAVING and _succeeded(record):
            _teach(cache, record, now - record.observed.since)
        record.observed.since, record.observed.promised, record.observed.doubted = None, None, False
        record.observed.interrupted = True


def expect(cache: Cache, record: GangRecord, *, forecast: bool = False) -> Estimate:
    """How many seconds this gang runs from its start, as far as known.

    One that overran by far is expected to have ended already, so its overrun counts and not the runtimes of others. A
    gang with a max-runtime runs no longer than that. If it declares nothing else, backfill assumes that time.
    """
    return expected(cache, terms(cache, record), forecast=forecast)


class RunTerms(NamedTuple):
    """Everything of a gang that decides how long it is expected to run. Many gangs have equal ones.

    most: its max-runtime.  doubted: it has run far longer than declared.  endless: its owner's pods don't end by themselves.
    """

    run: Run
    most: float | None
    doubted: bool
    endless: bool


def terms(cache: Cache, record: GangRecord) -> RunTerms:
    """The terms of this gang. They change only when it is reconciled, or with the policy."""
    return RunTerms(_run(cache, record), limit(record), record.observed.doubted, kind(record) in FOREVER)


def expected(cache: Cache, own: RunTerms, *, forecast: bool = False) -> Estimate:
    """See `expect`."""
    run, most, says = own.run, own.most, own.run[3]
    if own.doubted and says is not None:
        return Estimate(says, says, says)
    if most is not None and says is None and (not forecast or own.endless):
        return Estimate(most, most, most)
    found = cache.runtimes.likely(run) if forecast else cache.runtimes.of(run)
    if most is None or found.high <= most:
        return found
    return Estimate(min(found.middle, most), min(found.low, most), most)


def reach(cache: Cache, record: GangRecord) -> Reach:
    """Maximum seconds of its run, by `expect`: cached until it is reconciled again. Not for a gang with a max-runtime,
    because lessons from others would not reach its bound.
    """
    if limit(record) is not None:
        return Reach(expect(cache, record).high)
    says = declared(record) if record.observed.doubted else None
    found = cache.runtimes.reach(_run(cache, record)) if says is None else Reach(says)
    record.observed.reach = found
    return found


def _run(cache: Cache, record: GangRecord) -> Run:
    """The query to `runtimes` about it."""
    default = cache.policy.default_runtime
    if (
        record.observed.run is None
        or record.observed.run_for != record.pulse
        or record.observed.run[-1] != default
    ):
        whose = (record.key.namespace, creditor(record), len(record.members))
        record.observed.run, record.observed.run_for = (*whose, declared(record), default), record.pulse
    return record.observed.run


def _teach(cache: Cache, record: GangRecord, ran: float) -> None:
    """Record the runtime of a run. Also the accuracy of its declaration, if it was a single run and its overrun was not
    recorded.
    """
    whole = not (record.observed.interrupted or record.observed.doubted)
    promised = record.observed.promised if whole else None
    cache.runtimes.ended(record.key.namespace, creditor(record), len(record.members), promised, ran)


def _began(record: GangRecord, now: float) -> float:
    """The latest bind, if all pods report theirs."""
    times = [m.pod.bound_at for m in record.live() if m.bound]
    known = [at for at in times if at is not None]
    return min(max(known), now) if known and len(known) == len(times) else now


def _succeeded(record: GangRecord) -> bool:
    return all(m.pod.phase is Phase.SUCCEEDED for m in record.members.values())
