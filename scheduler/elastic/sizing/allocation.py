"""One call for all jobs: the size that each would like, and which of them gets the free capacity.

Lives here: `size`, the table of policies, and the order of assignment. Never here: a policy.

Capacity is first reserved for earlier decisions: resizes in progress, and quorums that have no nodes yet. The rest
goes, one step at a time, to the job with the largest relative gain, (R_{k+1} − R_k) / R_k as measured, 1/k if nothing
is known, times the job's weight. If gains fall with the size, the result is the largest weighted product of all
throughputs (proportional fairness: Kelly 1997). If nothing is free, surplus moves from the jobs with the smallest
weighted loss to those that gain more than `TRADE` times as much. The loser gives it up in this call, the winner takes
it in a later one.

The weight is 1/√T, where T is the time that one worker would need for the remaining work. So a short job ends soon, and
a long one hardly later: the mean completion time is least if shorter jobs get more, but not everything, because speedup
is concave (heSRPT: Berg, Vesilo, Harchol-Balter, Performance 2020; the root is an approximation of its shares). If the
remaining work is unknown, T is the service attained so far: long jobs are rare and have heavy tails, so a job that has
run for long is expected to run for as long again (least attained service: Tiresias, NSDI'19). With equal weights, jobs
that scale alike are filled up from the smallest.

The answer does not depend on the order of the jobs: ties are broken by size, then by name.
"""

import bisect
import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from scheduler.elastic.sizing import policies
from scheduler.elastic.sizing.capacity import Capacity, Free, Seats
from scheduler.elastic.sizing.job_view import JobView, Want
from scheduler.elastic.sizing.policy_parameters import NAMES
from scheduler.elastic.sizing.proposal import Proposal, clamped, rate

POLICIES: Final[Mapping[str, Callable[[JobView], Proposal]]] = {
    "offer": policies.offer,
    "efficiency": policies.efficiency,
    "utility": policies.utility,
    "schedule": policies.schedule,
}
"""Name of a policy → its proposal for a job."""

TRADE: Final = 2.0
"""Surplus moves to another job that gains more than this many times the loss. The gain must pay for two resizes and a
start, noise must not move workers back and forth, and the present owner keeps them if the difference is small."""

SHORTEST: Final = 60.0
"""Worker-seconds below which jobs count as equally short: a resize takes some of them, and a measurement."""


@dataclass(slots=True)
class _Share:
    """One job during the division."""

    job: JobView
    seats: Seats
    """Places for its workers."""
    proposal: Proposal
    size: int
    """The size granted so far."""
    settled: bool
    """It does not change now, in either direction."""
    weight: float
    """Factor of its gains and losses."""
    short: bool = False
    """There was no capacity for more, or not even for all of the earlier decisions."""
    rates: dict[int, float] = field(default_factory=dict)
    """Size → expected throughput, cached."""

    @property
    def grain(self) -> int:
        """Number of workers by which it grows next; the last step ends at the proposed size."""
        return min(self.proposal.grain, self.proposal.size - self.size)

    @property
    def hungry(self) -> bool:
        return not self.settled and self.size < self.proposal.size

    @property
    def gain(self) -> float:
        """Weighted relative speedup per worker of the next step."""
        return self.weight * self.speedup(self.size, self.size + self.grain)

    def loss(self, given: int) -> float:
        """Weighted relative speedup per worker that it loses if it gives up so many."""
        return self.weight * self.speedup(self.size - given, self.size)

    def speedup(self, low: int, high: int) -> float:
        """Relative speedup per additional worker."""
        return (self._rate(high) / self._rate(max(1, low)) - 1.0) / (high - low)

    def _rate(self, size: int) -> float:
        """Each size is needed twice, because one step ends where the next one begins."""
        if size not in self.rates:
            self.rates[size] = rate(self.job.measured, size)
        return self.rates[size]

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sort key: the smallest is served first."""
        return -self.gain, self.size, self.job.name


def size(jobs: Iterable[JobView], free: Free, *, short_first: bool = True) -> dict[str, Want]:
    """The size that each job should have, by name.

    short_first: jobs with little work left gain more; otherwise all have the same weight.

    Every size is within [min, max]. What all jobs take together, beyond what they hold and beyond their minima, is
    free. A job with a resize in progress, or with one within the last `hold` seconds, keeps the size it is going to.
    """
    capacity = Capacity(free)
    shares = [
        _share(job, capacity, weight(job) if short_first else 1.0)
        for job in sorted(jobs, key=lambda job: job.name)
    ]
    for share in shares:
        share.short = not all(share.seats.take(1) for _ in range(share.size - share.job.held))
    _grow(shares)
    _trade(shares)
    return {share.job.name: _want(share) for share in shares}


def policy(job: JobView) -> str:
    """Name of the job's policy."""
    return NAMES[type(job.parameters)]


def weight(job: JobView) -> float:
    """1/√T with T in worker-seconds, at least `SHORTEST`."""
    work = job.attained
    if job.remaining is not None and job.measured:
        work = job.remaining / rate(job.measured, 1)
    return 1.0 / math.sqrt(max(SHORTEST, work))


def _share(job: JobView, capacity: Capacity, weight: float) -> _Share:
    proposal = POLICIES[policy(job)](job)
    seats = capacity.seats(job.worker, job.kind)
    if job.in_flight or (job.want and job.since_change < job.parameters.hold):
        kept = clamped(job, job.want or job.held)
        return _Share(job, seats, proposal, kept, settled=True, weight=weight)
    proposal = replace(proposal, size=clamped(job, proposal.size))
    begins = min(proposal.size, max(job.held, job.min))
    return _Share(job, seats, proposal, begins, settled=False, weight=weight)


def _grow(shares: list[_Share]) -> None:
    """Grow the job that ranks first by one step, repeatedly. A step changes only the rank of the job that makes it."""
    queue = [(share.rank, share) for share in shares if share.hungry and not share.short]
    heapq.heapify(queue)
    while queue:
        first = queue[0][1]
        grain = first.grain
        if first.seats.take(grain):
            first.size += grain
        else:
            first.short = True
        if first.hungry and not first.short:
            heapq.heapreplace(queue, (first.rank, first))
        else:
            heapq.heappop(queue)


def _trade(shares: list[_Share]) -> None:
    """Take surplus from the smallest losses for the largest gains, step by step, as long as the difference is large.

    A job either gives or gains. What it gains is granted in a later call, when the capacity is free. Until then nothing
    else is taken, because the same surplus would be taken twice.
    """
    if any(share.settled and share.size < share.job.held for share in shares):
        return
    granted = {share.job.name: share.size for share in shares}
    takers = [(share.rank, share) for share in shares if share.hungry]
    givers = sorted((share for share in shares if _may_give(share)), key=_loss)
    heapq.heapify(takers)
    while takers:
        taker = takers[0][1]
        giver = None if taker.size < granted[taker.job.name] else _giver(givers, taker, granted)
        if giver is None:
            heapq.heappop(takers)
            continue
        givers = [other for other in givers if other is not giver and other is not taker]
        giver.size -= _given(giver, taker)
        if giver.size - _step(giver) >= giver.job.min:
            bisect.insort(givers, giver, key=_loss)
        taker.size += taker.grain
        if taker.hungry:
            heapq.heapreplace(takers, (taker.rank, taker))
        else:
            heapq.heappop(takers)
    for share in shares:
        share.size = min(share.size, granted[share.job.name])


def _giver(givers: list[_Share], taker: _Share, granted: Mapping[str, int]) -> _Share | None:
    """The job that loses least, if the taker gains enough more."""
    most = taker.gain / TRADE
    for giver in givers:
        if _loss(giver)[0] >= most:
            return None
        if giver is taker or giver.size > granted[giver.job.name] or giver.job.kind != taker.job.kind:
            continue
        given = _given(giver, taker)
        if given and giver.size - given >= giver.job.min and giver.loss(given) < most:
            return giver
    return None


def _may_give(share: _Share) -> bool:
    """It trains as decided, above its quorum, and its size is not set by a user."""
    job = share.job
    stable = not share.settled and share.size == job.held == job.size
    return stable and policy(job) != "schedule" and share.size - _step(share) >= job.min


def _step(share: _Share) -> int:
    return max(1, share.proposal.grain)


def _loss(share: _Share) -> tuple[float, int, str]:
    return share.loss(_step(share)), -share.size, share.job.name


def _given(giver: _Share, taker: _Share) -> int:
    """Workers that the giver must give up for the taker's next step; 0 if that would be for nothing.

    One worker's capacity must hold one of the taker's, because leftovers on several nodes may not be enough.
    """
    own, taken = giver.job.worker, taker.job.worker
    if any(own.get(name, 0.0) < amount for name, amount in taken.items()):
        return 0
    return -(-taker.grain // _step(giver)) * _step(giver)


def _want(share: _Share) -> Want:
    job, proposal, reason = share.job, share.proposal, share.proposal.reason
    if job.in_flight:
        reason = "a resize is in progress"
    elif share.settled:
        reason = f"the last resize was {job.since_change:.0f} s ago"
    elif share.size < proposal.size:
        reason = f"{reason}; no free capacity for {proposal.size}"
    soon = proposal.soon and not share.short
    return Want(size=share.size, reason=reason, by=policy(job), coming=proposal.coming, soon=soon)
