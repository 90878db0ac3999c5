"""What is to be seated, in the terms of a pool: batches, domains, and those who sit already.

Lives here: the level a gang asked for, made into domain numbers of places.
Never here: a choice.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.model.cluster import Mask, Snapshot
from scheduler.model.topology import NOWHERE
from scheduler.model.workload import Gang, Strategy
from scheduler.placement.distribution import Codes, Counts
from scheduler.placement.node_candidates import NodeCandidates, Scratch, around, total


@dataclass(frozen=True)
class SeatingProblem:
    """Seat these batches of the pool.

    quorum: how many leading batches are the quorum; the others are surplus.
    level: the column that is packed into or spread over: the one the gang asked for or, where no node has its
    label, the next coarser one that some node has.
    codes: Codes[m], domains of that level, -1 for none; `domains` counts them.
    have: Counts[d], members that sit in each already.
    eligible: bool[d], the domains that a required spread has to be even over.
    anchors: the nodes of members that sit already.
    """

    pool: NodeCandidates
    quorum: int
    strategy: Strategy
    required: bool
    level: int
    codes: Codes
    domains: int
    have: Counts
    eligible: Mask
    anchors: tuple[int, ...] = ()

    @cached_property
    def needs(self) -> list[int]:
        """Members of each batch of the quorum."""
        return [len(batch.uids) for batch in self.pool.batches[: self.quorum]]

    @property
    def lone(self) -> bool:
        """No two places share a domain."""
        lone = self.pool.snapshot.topology.lone
        return self.level < len(lone) and lone[self.level]

    @cached_property
    def sums(self) -> dict[int, int]:
        """By column, what the whole quorum needs."""
        out: dict[int, int] = {}
        for own, need in zip(self.pool.requests, self.needs, strict=False):
            for column, wanted in own:
                out[column] = out.get(column, 0) + wanted * need
        return out

    @cached_property
    def distance(self) -> Codes:
        """Codes[m]: from the anchors; 0 everywhere when there are none."""
        return around(self.pool, self.anchors) if self.anchors else np.zeros(len(self.pool), dtype=np.int64)

    @cached_property
    def slack(self) -> Counts:
        """float64[m]: how often each place could hold the quorum, were its batches alone there, summed."""
        out = np.zeros(len(self.pool))
        for units, need in zip(self.pool.units, self.needs, strict=False):
            out += units / need
        return out

    def slack_of(self, codes: Codes, groups: int) -> Counts:
        """float64[g]: the slack of each group. What has least of it is tightest."""
        return total(codes, self.slack, groups)

    def scratch(self) -> Scratch:
        """A fresh trial, in which nobody sits but the anchors."""
        nobody = np.zeros(len(self.pool), dtype=bool)
        return Scratch(self.pool, np.isin(self.pool.rows, self.anchors) if self.anchors else nobody)


def effective(snapshot: Snapshot, level: int) -> int | None:
    """The level itself or, where no node has its label, the next coarser one that some node has."""
    known = snapshot.topology.known
    return next((up for up in range(level, len(known)) if known[up]), None)


def task_of(
    snapshot: Snapshot,
    gang: Gang,
    pool: NodeCandidates,
    quorum: int,
    eligible: Mask,
    anchors: tuple[int, ...],
) -> SeatingProblem:
    """The task of seating this gang in this pool.

    eligible: bool[n], nodes that could hold a member were they empty.
    """
    asked = snapshot.topology.level(gang.level) or 0
    level = effective(snapshot, asked)
    if level is not None:
        everywhere = snapshot.topology.columns[level]
        codes, domains = pool.coords[level], pool.domains(level)
    elif gang.strategy is Strategy.SPREAD:  # no domains to be even over: over single nodes, then
        everywhere = np.arange(len(snapshot.names))
        codes, domains = pool.rows, len(snapshot.names)
    else:
        everywhere = np.full(len(snapshot.names), NOWHERE, dtype=np.int64)
        codes, domains = np.full(len(pool), NOWHERE, dtype=np.int64), 0
    here = everywhere[list(anchors)] if anchors else everywhere[:0]
    return SeatingProblem(
        pool=pool,
        quorum=quorum,
        strategy=gang.strategy,
        required=gang.required,
        level=len(snapshot.topology.levels) if level is None else level,
        codes=codes,
        domains=domains,
        have=total(here, np.ones(len(here)), domains),
        eligible=_among(everywhere, eligible, domains),
        anchors=anchors,
    )


def _among(codes: Codes, nodes: Mask, domains: int) -> Mask:
    """bool[d]: the domains of these nodes, bool[n], whose domains are `codes`."""
    out = np.zeros(domains + 1, dtype=bool)
    out[codes[nodes]] = True  # nodes without a domain, -1, mark the last entry
    return out[:-1]
