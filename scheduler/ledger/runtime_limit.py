"""The maximum runtime of a gang, `gangwright.io/max-runtime`: it is warned, and then ended for good.

Lives here: the clock, how a gang is ended, and what a restart knows of that. The clock starts with the bind that
completed the quorum. It is derived from the pods, so a restart or another replica continues with the same clock.

A gang of one Job is ended by suspending the Job, which stays suspended until an operator resumes it. The pods of other
gangs are evicted. The next pods of their controllers are rejected (`gang_spec`) until they request more time. After a
restart this is known from the condition on waiting pods; a gang without pods is forgotten then.

Never here: what the limit implies for forecasts (observed_runs).
"""

from collections.abc import Iterator
from typing import Final

from scheduler.ledger import attained_service, gang_spec, healing, observed_runs
from scheduler.ledger.cache import Cache
from scheduler.ledger.gang import GangRecord, Member, Spec, arrival
from scheduler.ledger.gang_spec import MAX_RUNTIME
from scheduler.ledger.phase import QUORUM_BOUND
from scheduler.ledger.quorum import QuorumCount
from scheduler.model.decision import TEXT, Reason, Refuse
from scheduler.model.durations import written
from scheduler.model.effects import Announce, Effect, SuspendJob
from scheduler.model.workload import OwnerTraits, Phase

PART: Final = 0.1
"""The part of the limit that is left at the warning, unless `LEAD` is shorter."""

LEAD: Final = 300.0
"""Seconds: enough for a training job to save its work, and late enough to be taken as the last call."""


def end(record: GangRecord, now: float) -> float | None:
    """When it is ended, in the ledger's time. None: never, or its quorum is not bound."""
    span, spec = observed_runs.limit(record), record.spec
    if span is None or not isinstance(spec, Spec) or record.state not in QUORUM_BOUND:
        return None
    return _began(record, spec, now) + span


def enforce(cache: Cache, record: GangRecord, now: float) -> list[Effect]:
    """The effects of its limit now. Sets `record.runtime_limit.look_at`, when to check again.

    If a member leaves or was lost, the gang is incomplete, and has no end until it is complete again.
    """
    own, spec, span = record.runtime_limit, record.spec, observed_runs.limit(record)
    own.look_at = float("inf")
    exceeded = isinstance(spec, Refuse) and spec.reason is Reason.RUNTIME_EXCEEDED
    longer = own.exceeded is not None and (span is None or span > own.exceeded)
    if longer and isinstance(spec, Spec) and record.state in QUORUM_BOUND:
        own.exceeded = None  # it runs again: a shorter limit counts from the start of this run
    bound = [m for m in record.live() if m.bound] if exceeded or span is not None else []
    if exceeded:
        return list(healing.evict_all(cache, record, bound, Reason.RUNTIME_EXCEEDED, now))
    ends = end(record, now)
    if ends is None or span is None or not bound:
        return []
    warned_at = ends - min(PART * span, LEAD)
    if now < ends:
        own.look_at = ends if now >= warned_at else warned_at
        left = written(max(1.0, round(ends - now)))
        text = f"{left} of {written(span)} left; save the work or raise {MAX_RUNTIME}"
        return list(_tell(record, Reason.RUNTIME_EXPIRING, ends, text)) if now >= warned_at else []
    job = attained_service.job_of(record, cache.owners)
    if job is not None and not job.managed and attained_service.leaves_alone(record, cache.registry):
        return list(_suspend(cache, record, job, ends, now))
    return list(_evict(cache, record, bound, span, ends, now))


def _began(record: GangRecord, spec: Spec, now: float) -> float:
    """When the member was bound that completed its quorum. If bind times are missing, when that was seen. It is
    constant while the quorum stays complete, whichever members are replaced. Members that succeeded in an earlier run
    fill the quorum too, so it is no earlier than the first bind of the running ones.
    """
    seen = now if record.observed.since is None else record.observed.since
    placed = [m for m in record.members.values() if (m.bound and m.live) or m.pod.phase is Phase.SUCCEEDED]
    binds = {member.pod.uid: member.pod.bound_at for member in placed}
    if None not in binds.values():
        count = QuorumCount(spec)
        for member in sorted(placed, key=lambda m: (binds[m.pod.uid] or 0.0, arrival(m))):
            if count.take(member) and not count.left:
                first = min((binds[m.pod.uid] or 0.0 for m in placed if m.bound), default=seen)
                return min(max(binds[member.pod.uid] or 0.0, first), seen)
    return seen


def _suspend(cache: Cache, record: GangRecord, job: OwnerTraits, ends: float, now: float) -> Iterator[Effect]:
    """Suspend its Job, and retry until that succeeds: a Job that has changed since it was seen rejects the write."""
    pod = _eldest(record).pod
    if job.suspended or pod.owner is None:
        return
    own = record.runtime_limit
    if now >= own.suspend_again:
        own.suspend_again = now + cache.policy.outcome_limit
        had = attained_service.so_far(record, cache.owners, now)
        key = pod.key._replace(name=pod.owner.name)
        yield SuspendJob(record.key, pod.uid, key, pod.owner, had, job.version, stays=Reason.RUNTIME_EXCEEDED)
        yield from _ended(cache, record, ends, "its Job is being suspended until you resume it")
    own.look_at = own.suspend_again


def _evict(
    cache: Cache, record: GangRecord, bound: list[Member], span: float, ends: float, now: float
) -> Iterator[Effect]:
    """Evict all pods that have a node. Evicted pods no longer count, so this happens once."""
    own, pod = record.runtime_limit, _eldest(record).pod
    text = f"its {len(bound)} pod(s) are evicted; their replacements wait until you raise {MAX_RUNTIME}"
    yield from _ended(cache, record, ends, text)
    own.exceeded, own.makers = span, _makers(cache, record)
    cache.registry.keep_scars(
        record, pod
    )  # for a gang of one, the next pod may appear before this one is deleted
    yield from healing.evict_all(cache, record, bound, Reason.RUNTIME_EXCEEDED, now)
    cache.mark(record.key, spec_too=True)


def _ended(cache: Cache, record: GangRecord, ends: float, text: str) -> Iterator[Effect]:
    told = list(_tell(record, Reason.RUNTIME_EXCEEDED, ends, text))
    cache.counters.decisions[Reason.RUNTIME_EXCEEDED] += len(told)
    yield from told


def _tell(record: GangRecord, why: Reason, ends: float, text: str) -> Iterator[Effect]:
    """Report each end once: on the first pod and on its owner."""
    if record.runtime_limit.told != (why, ends):
        record.runtime_limit.told = (why, ends)
        pod = _eldest(record).pod
        yield Announce(record.key, pod.uid, pod.key, pod.owner, why, f"{TEXT[why]}: {text}")


def _eldest(record: GangRecord) -> Member:
    return min(record.live(), key=arrival)


def adopt(cache: Cache, record: GangRecord) -> None:
    """After a restart: a waiting pod may state that its gang was ended."""
    says = (m.pod.told for m in record.live() if m.pod.node is None)
    if not any(told == Reason.RUNTIME_EXCEEDED for told in says):
        return
    spec = gang_spec.spec(record, cache.groups, cache.policy)
    own = record.runtime_limit
    own.exceeded = spec.wish.max_runtime if isinstance(spec, Spec) else None
    own.makers = _makers(cache, record)


def recognize(cache: Cache, record: GangRecord) -> None:
    """A controller of Jobs, for example a JobSet, may recreate them. Pods of the new Jobs are not placed either."""
    own = record.runtime_limit
    if own.exceeded is not None:
        jobs = (cache.owners.get(uid) for uid in _controllers(record))
        own.makers |= {job.uid for job in jobs if job is not None and job.managed in own.makers}


def _makers(cache: Cache, record: GangRecord) -> frozenset[str]:
    """The uids of the controllers of its pods, and of the controllers of their Jobs."""
    uids = _controllers(record)
    jobs = (cache.owners.get(uid) for uid in uids)
    return uids | {job.managed for job in jobs if job is not None and job.managed}


def _controllers(record: GangRecord) -> frozenset[str]:
    return frozenset(m.pod.owner.uid for m in record.live() if m.pod.owner is not None)
