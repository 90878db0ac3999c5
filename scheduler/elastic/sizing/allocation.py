"""One call for all jobs: what each would like, and which of them gets the free seats.

Lives here: `size`, the table of policies, and the order in which seats are given away. Never here: a policy.

First seats are set aside for what is decided already: resizes under way, and quorums that have no seats yet. The rest
goes, a step at a time, to the job that gains most by it, relatively: (R_{k+1} − R_k) / R_k as it was measured, 1/k
where nothing is known. Among jobs that scale alike this fills up the smallest first; where gains fall with the size it
ends at the largest product of all throughputs (proportional fairness: Kelly 1997). When nothing is free, surplus moves
from the job that loses least by it to one that gains more than `TRADE` times as much: the loser gives it up in this
call, the winner takes the room in a later one.

Every answer is the same whatever the order of the jobs: ties go by size, then by name.
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
from scheduler.elastic.sizing.proposal import Proposal, clamped, rate

POLICIES: Final[Mapping[str, Callable[[JobView], Proposal]]] = {
    "offer": policies.offer,
    "efficiency": policies.efficiency,
    "utility": policies.utility,
    "schedule": policies.schedule,
}
"""A policy's name → what it would like for a job."""

TRADE: Final = 2.0
"""Surplus moves to another job that gains more than this many times what the first one loses. Two resizes and a start
have to be won back, noise must move nobody to and fro, and whoever came first keeps a small difference."""


@dataclass(slots=True)
class _Share:
    """One job while seats are given away."""

    job: JobView
    seats: Seats
    """For its workers."""
    proposal: Proposal
    size: int
    """What it has been given so far."""
    settled: bool
    """It does not change now, in either direction."""
    short: bool = False
    """There were no seats for more, or not even for all of what was decided already."""
    rates: dict[int, float] = field(default_factory=dict)
    """Expected throughput by size, as far as it was asked for."""

    @property
    def grain(self) -> int:
        """By how much it grows, while it is hungry; the last step ends where it wants to be."""
        return min(self.proposal.grain, self.proposal.size - self.size)

    @property
    def hungry(self) -> bool:
        return not self.settled and self.size < self.proposal.size

    @property
    def gain(self) -> float:
        """Relative speed-up a worker, of the next step."""
        return self.speedup(self.size, self.size + self.grain)

    def speedup(self, low: int, high: int) -> float:
        """Relative, for each worker that it takes."""
        return (self._rate(high) / self._rate(max(1, low)) - 1.0) / (high - low)

    def _rate(self, size: int) -> float:
        """Where one step ends the next one begins, so that each size is asked for twice."""
        if size not in self.rates:
            self.rates[size] = rate(self.job.measured, size)
        return self.rates[size]

    @property
    def rank(self) -> tuple[float, int, str]:
        """Who is served first is smallest."""
        return -self.gain, self.size, self.job.name


def size(jobs: Iterable[JobView], free: Free) -> dict[str, Want]:
    """The size that each job should have, by its name.

    Every size is within [min, max]; what all jobs take together beyond what they hold, and beyond their minima, is
    free. A job with a resize under way, or which had one within `hold` seconds, keeps the size that it goes to.
    """
    capacity = Capacity(free)
    shares = [_share(job, capacity) for job in sorted(jobs, key=lambda job: job.name)]
    for share in shares:
        share.short = not all(share.seats.take(1) for _ in range(share.size - share.job.held))
    _grow(shares)
    _trade(shares)
    return {share.job.name: _want(share) for share in shares}


def policy(job: JobView) -> str:
    """The name of the job's policy."""
    return NAMES[type(job.parameters)]


def _share(job: JobView, capacity: Capacity) -> _Share:
    proposal = POLICIES[policy(job)](job)
    seats = capacity.seats(job.worker, job.kind)
    if job.in_flight or (job.want and job.since_change < job.parameters.hold):
        kept = clamped(job, job.want or job.held)
        return _Share(job, seats, proposal, kept, settled=True)
    proposal = replace(proposal, size=clamped(job, proposal.size))
    return _Share(job, seats, proposal, min(proposal.size, max(job.held, job.min)), settled=False)


def _grow(shares: list[_Share]) -> None:
    """One step at a time, of the job that is first. A step changes the rank of the job that makes it, and of none else."""
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
    """At most one step of one job in a call: the next one sees what came of it."""
    hungry = sorted((share for share in shares if share.hungry), key=lambda share: share.rank)
    givers = sorted((share for share in shares if _may_give(share)), key=_loss)
    losses = [_loss(giver)[0] for giver in givers]
    for taker in hungry:
        enough = bisect.bisect_left(losses, taker.gain / TRADE)
        giver = next((giver for giver in givers[:enough] if _fits(giver, taker)), None)
        if giver is not None:
            giver.size -= _step(giver)
            return


def _may_give(share: _Share) -> bool:
    """It trains as it was decided, above its quorum, and nobody stated its size."""
    job = share.job
    stable = not share.settled and share.size == job.held == job.size
    return stable and policy(job) != "schedule" and share.size - _step(share) >= job.min


def _step(share: _Share) -> int:
    return max(1, share.proposal.grain)


def _loss(share: _Share) -> tuple[float, int, str]:
    return share.speedup(share.size - _step(share), share.size), -share.size, share.job.name


def _fits(giver: _Share, taker: _Share) -> bool:
    """What the first gives up holds what the second would take; anything else would be given up for nothing."""
    if giver is taker or giver.job.kind != taker.job.kind:
        return False
    given, taken, own = _step(giver), taker.grain, giver.job.worker
    return all(own.get(name, 0.0) * given >= amount * taken for name, amount in taker.job.worker.items())


def _want(share: _Share) -> Want:
    job, proposal, reason = share.job, share.proposal, share.proposal.reason
    if job.in_flight:
        reason = "a resize is under way"
    elif share.settled:
        reason = f"the last resize was {job.since_change:.0f} s ago"
    elif share.size < proposal.size:
        reason = f"{reason}; there is no room for {proposal.size}"
    soon = proposal.soon and not share.short
    return Want(size=share.size, reason=reason, by=policy(job), coming=proposal.coming, soon=soon)
