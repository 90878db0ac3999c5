"""One call for all jobs: the size that each would like, and which of them gets the free capacity.

Lives here: `size`, the table of policies, and the order of assignment. Never here: a policy.

Capacity is first reserved for earlier decisions: resizes in progress, and quorums that have no nodes yet. The rest
goes, one step at a time, to the job with the largest relative gain: (R_{k+1} − R_k) / R_k as measured, 1/k if nothing
is known. Jobs that scale alike are filled up from the smallest. If gains fall with the size, the result is the largest
product of all throughputs (proportional fairness: Kelly 1997). If nothing is free, surplus moves from the job with the
smallest loss to one that gains more than `TRADE` times as much. The loser gives it up in this call, the winner takes it
in a later one.

The answer does not depend on the order of the jobs: ties are broken by size, then by name.
"""

import bisect
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from scheduler.elastic.sizing import policies
from scheduler.elastic.sizing.capacity import Capacity, Free, Seats
from scheduler.elastic.sizing.job_view import JobView, Want
from scheduler.elastic.sizing.policy_parameters import NAMES
from scheduler.elastic.sizing.proposal import Proposal, clamped, pays, rate

POLICIES: Final[Mapping[str, Callable[[JobView], Proposal]]] = {
    "offer": policies.offer,
    "efficiency": policies.efficiency,
    "utility": policies.utility,
    "schedule": policies.schedule,
}
"""Name of a policy → its proposal for a job."""

TRADE: float = 2.0
"""Surplus moves to another job that gains more than this many times the loss. The gain must pay for two resizes and a
start, noise must not move workers back and forth, and the present owner keeps them if the difference is small."""


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
    weight: float = 1.0
    """Of its gains and losses."""
    short: bool = False
    """There was no capacity for more, or not even for all of the earlier decisions."""
    rates: dict[int, float] = field(default_factory=dict)
    """Size → expected throughput, cached."""

    @property
    def grain(self) -> int:
        """Number of workers by which it grows next; the last step ends at the proposed size."""
        return min(max(self.proposal.grain, int(self.size*FRAC)), self.proposal.size - self.size)

    @property
    def hungry(self) -> bool:
        return not self.settled and self.size < self.proposal.size

    @property
    def gain(self) -> float:
        """Relative speedup per worker of the next step, weighted."""
        return self.weight * self.speedup(self.size, self.size + self.grain)

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


def size(jobs: Iterable[JobView], free: Free) -> dict[str, Want]:
    """The size that each job should have, by name.

    Every size is within [min, max]. What all jobs take together, beyond what they hold and beyond their minima, is
    free. A job with a resize in progress, or with one within the last `hold` seconds, keeps the size it is going to.
    """
    capacity = Capacity(free)
    shares = [_share(job, capacity) for job in sorted(jobs, key=lambda job: job.name)]
    for share in shares:
        share.short = not all(share.seats.take(1) for _ in range(share.size - share.job.held))
    _grow(shares)
    if PAYS:
        for share in shares:
            j=share.job
            if j.size and j.held==j.size and j.size < share.size and not pays(j, share._rate(share.size)):
                share.size = j.held
    _trade(shares)
    return {share.job.name: _want(share) for share in shares}


def policy(job: JobView) -> str:
    """Name of the job's policy."""
    return NAMES[type(job.parameters)]


def _share(job: JobView, capacity: Capacity) -> _Share:
    proposal = POLICIES[policy(job)](job)
    seats = capacity.seats(job.worker, job.kind)
    if job.in_flight or (job.want and job.since_change < job.parameters.hold):
        kept = clamped(job, job.want or job.held)
        return _Share(job, seats, proposal, kept, settled=True, weight=weight(job))
    proposal = replace(proposal, size=clamped(job, proposal.size))
    return _Share(job, seats, proposal, min(proposal.size, max(job.held, job.min)), settled=False, weight=weight(job))


import os
FRAC=float(os.environ.get("FRAC","0")); PAYS=float(os.environ.get("PAYS","0"))
EXP=float(os.environ.get("EXP","0.5")); LEAST=float(os.environ.get("LEAST","60")); TRADE=float(os.environ.get("TRADE","2")); TRADES=int(os.environ.get("TRADES","1"))
def weight(job: JobView) -> float:
    one = rate(job.measured, 1)
    work = job.remaining / one if job.remaining is not None and job.measured else job.attained
    return max(work, LEAST) ** -EXP


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
    """Move surplus, step by step, from the job that loses least to the one that gains most. The next call sees it."""
    takers = [(share.rank, share) for share in shares if share.hungry]
    givers = [(_loss(share), share) for share in shares if _may_give(share)]
    heapq.heapify(takers)
    heapq.heapify(givers)
    granted = {share.job.name: share.size for share in shares}
    changed = set[str]()
    while takers and givers:
        _, taker = takers[0]
        aside = list[tuple[tuple[float, int, str], _Share]]()
        found = None
        while givers and found is None:
            loss, giver = givers[0]
            if taker.gain <= TRADE * loss[0]:
                break
            if giver.size > granted[giver.job.name]:
                heapq.heappop(givers)
                continue
            if _fits(giver, taker):
                found = giver
            else:
                aside.append(heapq.heappop(givers))
        if found is None or taker.size < granted[taker.job.name]:
            heapq.heappop(takers)
        else:
            found.size -= _step(found)
            if found.size - _step(found) >= found.job.min:
                heapq.heapreplace(givers, (_loss(found), found))
            else:
                heapq.heappop(givers)
            taker.size += taker.grain
            if taker.hungry:
                heapq.heapreplace(takers, (taker.rank, taker))
            else:
                heapq.heappop(takers)
        for one in aside:
            heapq.heappush(givers, one)
    for share in shares:
        share.size = min(share.size, granted[share.job.name])


def _may_give(share: _Share) -> bool:
    """It trains as decided, above its quorum, and its size is not set by a user."""
    job = share.job
    stable = not share.settled and share.size == job.held == job.size
    return stable and policy(job) != "schedule" and share.size - _step(share) >= job.min


def _step(share: _Share) -> int:
    return max(1, share.proposal.grain)


def _loss(share: _Share) -> tuple[float, int, str]:
    return share.weight * share.speedup(share.size - _step(share), share.size), -share.size, share.job.name


def _fits(giver: _Share, taker: _Share) -> bool:
    """What the giver frees is enough for the taker's step; otherwise it would be given up for nothing."""
    if giver is taker or giver.job.kind != taker.job.kind:
        return False
    given, taken, own = _step(giver), taker.grain, giver.job.worker
    return all(own.get(name, 0.0) * given >= amount * taken for name, amount in taker.job.worker.items())


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
