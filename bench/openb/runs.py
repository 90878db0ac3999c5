"""One run by mix, seed, and the policy or strategy that chooses the nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bench.openb.books import Shape
from bench.openb.curve import Cluster, Outcome, run
from bench.openb.mixes import arrivals_of, cluster, pods_of, shuffled
from bench.openb.planned import Arrivals
from bench.openb.policies import POLICIES, policy
from bench.openb.replica import Replica
from bench.queue.running import in_order
from bench.traces import TraceError
from scheduler.model.workload import Strategy


class Ties(StrEnum):
    """Which of equally good nodes is taken."""

    SHUFFLED = "shuffled"
    """The first in one random order of the nodes a run, the rule of the published runs."""
    NAMED = "named"
    """The first by the name that the trace gives it."""
    DRAWN = "drawn"
    """Any, drawn for each pod, the rule of kube-scheduler. Not for strategies."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run. by: a published policy, first fit, or a strategy of Gangwright."""

    mix: str
    seed: int
    by: str
    ties: Ties = Ties.SHUFFLED

    def run(self) -> Outcome:
        """Raises TraceError."""
        return run(self._cluster(), arrivals_of(self.mix, self.seed))

    def _cluster(self) -> Cluster:
        own = cluster() if self.ties is Ties.NAMED else shuffled(cluster(), self.seed)
        drawn = self.ties is Ties.DRAWN
        if self.by not in STRATEGIES:
            shapes = [Shape.of(demand) for demand in pods_of(self.mix)]
            return Replica(own, policy(self.by, shapes), self.seed, drawn=drawn)
        if drawn:
            raise TraceError(
                f"ties: '{self.ties}' is unsupported for {self.by}. Use one of {', '.join(POLICIES)}."
            )
        return Arrivals(own, Strategy(self.by))


STRATEGIES: Final = tuple(Strategy)


def run_all(cases: Sequence[Case], workers: int) -> Iterator[tuple[Case, Outcome]]:
    """All of them, in this order, as they are done."""
    yield from zip(cases, in_order(Case.run, [cases], workers), strict=True)
