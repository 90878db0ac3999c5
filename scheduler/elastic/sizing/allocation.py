"""One call for all jobs: what each would like, and who gets the room.

Lives here: `size`, the table of policies, and the order in which free room is given away. Never here: a policy.

First room is set aside for what is decided already: resizes under way, and quorums that have no seats yet. The rest
goes, a step at a time, to the job that gains most by it, relatively: (R_{k+1} − R_k) / R_k as it was measured, 1/k
where nothing is known. Among jobs that scale alike this fills up the smallest first; where gains fall with the size it
ends at the largest product of all throughputs (proportional fairness: Kelly 1997). When nothing is free, surplus moves
from the job that loses least by it to one that gains more than `TRADE` times as much: the loser gives it up in this
call, the winner takes the room in a later one.

Every answer is the same whatever the order of the jobs: ties go by size, then by name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from scheduler.elastic.sizing import policies
from scheduler.elastic.sizing.free_capacity import Room
from scheduler.elastic.sizing.job_view import Free, JobView, Want
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
    """One job while the room is shared out."""

    job: JobView
    proposal: Proposal
    size: int
    """What it has been given so far."""
    settled: bool
    """It does not change now, in either direction."""
    short: bool = False
    """There was no room for more, or not even for all of what was decided already."""

    @property
    def grain(self) -> int:
        """By how much it grows; the last step ends where it wants to be."""
        return min(self.proposal.grain, self.proposal.size - self.size)

    @property
    def hungry(self) -> bool:
        return not self.settled and self.size < self.proposal.size

    @property
    def gain(self) -> float:
        """Relative speed-up a worker, of the next step."""
        return _gain(self.job, self.size, self.size + max(1, self.grain))

    @property
    def rank(self) -> tuple[float, int, str]:
        """Who is served first is smallest."""
        return -self.gain, self.size, self.job.name


def size(jobs: Iterable[JobView], free: Free) -> dict[str, Want]:
    """The size that each job should have, by its name.

    Every size is within [min, max]; what all jobs take together beyond what they hold, and beyond their minima, is
    free. A job with a resize under way, or which had one within `hold` seconds, keeps the size that it goes to.
    """
    shares = sorted((_share(job) for job in jobs), key=lambda share: share.job.name)
    room = Room(free)
    for share in shares:
        lacking = share.size - share.job.held
        share.short = not all(room.take(share.job.worker) for _ in range(lacking))
    _grow(shares, room)
    _trade(shares)
    return {share.job.name: _want(share) for share in shares}


def policy(job: JobView) -> str:
    """The name of the job's policy."""
    return NAMES[type(job.parameters)]


def _share(job: JobView) -> _Share:
    proposal = POLICIES[policy(job)](job)
    if job.in_flight or (job.want and job.since_change < job.parameters.hold):
        kept = clamped(job, job.want or job.held)
        return _Share(job, proposal, kept, settled=True)
    proposal = replace(proposal, size=clamped(job, proposal.size))
    return _Share(job, proposal, min(proposal.size, max(job.held, job.min)), settled=False)


def _grow(shares: list[_Share], room: Room) -> None:
    while hungry := [share for share in shares if share.hungry and not share.short]:
        first = min(hungry, key=lambda share: share.rank)
        if room.take(first.job.worker, first.grain):
            first.size += first.grain
        else:
            first.short = True


def _trade(shares: list[_Share]) -> None:
    """At most one step of one job in a call: the next one sees what came of it."""
    hungry = sorted((share for share in shares if share.hungry), key=lambda share: share.rank)
    givers = sorted((share for share in shares if _may_give(share)), key=_loss)
    for taker in hungry:
        for giver in givers:
            if _fits(giver, taker) and taker.gain > TRADE * _loss(giver)[0]:
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
    below = share.size - _step(share)
    return _gain(share.job, below, share.size), -share.size, share.job.name


def _fits(giver: _Share, taker: _Share) -> bool:
    """What the first gives up holds what the second would take; anything else would be given up for nothing."""
    given, taken = _step(giver), max(1, taker.grain)
    return giver is not taker and all(
        giver.job.worker.get(resource, 0.0) * given >= amount * taken
        for resource, amount in taker.job.worker.items()
    )


def _gain(job: JobView, low: int, high: int) -> float:
    before = rate(job.measured, max(1, low))
    return (rate(job.measured, high) / before - 1.0) / max(1, high - low)


def _want(share: _Share) -> Want:
    return Want(
        size=share.size,
        reason=_reason(share),
        by=policy(share.job),
        coming=share.proposal.coming,
        soon=share.proposal.soon and not share.short,
    )


def _reason(share: _Share) -> str:
    if share.job.in_flight:
        return "a resize is under way"
    if share.settled:
        return f"the last resize was {share.job.since_change:.0f} s ago"
    if share.size < share.proposal.size:
        return f"{share.proposal.reason}; there is no room for {share.proposal.size}"
    return share.proposal.reason
