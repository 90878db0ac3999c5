"""When a gang began, and how long it ran: read off its pods, and taught to the memory of runtimes.

Lives here: what counts as a run, and what is asked of that memory. Never here: how it answers (runtimes).
"""

from typing import Final

from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Spec
from scheduler.ledger.gang_parts import UNASKED
from scheduler.ledger.phase import QUORUM_BOUND, State
from scheduler.ledger.runtimes import LIE, Reach, Run
from scheduler.model.queueing import Estimate
from scheduler.model.workload import Phase, PodKey

MARGIN: Final = 0.01
"""Of what was declared, beyond LIE times it: the clock of the API server counts whole seconds."""


def kind(record: GangRecord) -> str:
    """The kind of the controller that makes its pods; empty where none does."""
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
"""Kinds of owners whose gangs have a memory of their own, in each namespace."""


FOREVER: Final = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"})
"""Kinds of owners whose pods do not end by themselves."""


def creditor(record: GangRecord) -> str:
    """Under which kind its runtimes are remembered: all other kinds share one memory with pods without an owner.

    A tenant may write any kind into `ownerReferences`, and would be believed afresh with each.
    """
    own = kind(record)
    return own if own in CREDITED else ""


def declared(record: GangRecord) -> float | None:
    """The runtime that it declares, in seconds; where no pod that is left declares any, what it declared when it
    began.
    """
    says = record.spec.wish.expected_runtime if isinstance(record.spec, Spec) else None
    return record.observed.promised if says is None else says


def limit(record: GangRecord) -> float | None:
    """The seconds after which it is ended, as its pods ask; None: nothing ends it."""
    span = record.spec.wish.max_runtime if isinstance(record.spec, Spec) else None
    return None if span is None or PodKey(*record.key).off_limits else span


def doubted_at(record: GangRecord) -> float:
    """When a gang that runs on has run so much longer than declared that its owner is believed no more; infinity:
    never, or it is known.
    """
    says = declared(record)
    if record.observed.since is None or record.observed.doubted or says is None or says <= 0:
        return float("inf")
    return record.observed.since + (LIE + MARGIN) * says


def keep(cache: Cache, record: GangRecord, now: float) -> None:
    """Remember when its quorum was whole, and what it took when it has ended."""
    record.observed.run, record.observed.reach = None, UNASKED  # what its members declare may be another
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
    """How many seconds this gang runs from its start on, as far as is known.

    One that overran by far is expected to have ended long ago: so what it overran counts, not what others took. One
    that is ended after a time runs no longer; where it declares nothing else, it is let past others by that time.
    """
    says, most = declared(record), limit(record)
    if record.observed.doubted and says is not None:
        return Estimate(says, says, says)
    if most is not None and says is None and (not forecast or kind(record) in FOREVER):
        return Estimate(most, most, most)
    run = _run(cache, record)
    found = cache.runtimes.likely(run) if forecast else cache.runtimes.of(run)
    if most is None or found.high <= most:
        return found
    return Estimate(min(found.middle, most), min(found.low, most), most)


def reach(cache: Cache, record: GangRecord) -> Reach:
    """How many seconds it runs at the longest, by `expect`: kept until it is looked at again. Not of one that is ended
    after a time: what is learned of others would not reach its bound.
    """
    if limit(record) is not None:
        return Reach(expect(cache, record).high)
    says = declared(record) if record.observed.doubted else None
    found = cache.runtimes.reach(_run(cache, record)) if says is None else Reach(says)
    record.observed.reach = found
    return found


def _run(cache: Cache, record: GangRecord) -> Run:
    """What is asked of `runtimes` about it."""
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
    """What a run took; and what its declaration was worth, if it was one run, and was not told when it overran."""
    whole = not (record.observed.interrupted or record.observed.doubted)
    promised = record.observed.promised if whole else None
    cache.runtimes.ended(record.key.namespace, creditor(record), len(record.members), promised, ran)


def _began(record: GangRecord, now: float) -> float:
    """The last of the binds, where all pods tell theirs."""
    times = [m.pod.bound_at for m in record.live() if m.bound]
    known = [at for at in times if at is not None]
    return min(max(known), now) if known and len(known) == len(times) else now


def _succeeded(record: GangRecord) -> bool:
    return all(m.pod.phase is Phase.SUCCEEDED for m in record.members.values())
