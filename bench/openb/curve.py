"""One run: all pods arrive, and the allocated GPUs are recorded by arrived demand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.controller import GPU
from scheduler.model.demand import Demand


class Cluster(Protocol):
    """A cluster that pods arrive in."""

    @property
    def gpus(self) -> float:
        """Thousandths of a GPU, free or not."""

    def arrive(self, demand: Demand) -> str | None:
        """The node of the next pod. None: it fits on no node and is dropped."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Pods that arrived and that got a node, and the allocated GPUs in % of all, by arrived GPUs in % of all."""

    arrived: int
    seated: int
    allocated: Mapping[int, float]


def run(cluster: Cluster, demands: Iterable[Demand]) -> Outcome:
    """All pods, one by one. The figure at k% is the mean over the arrivals whose sum rounds to k%."""
    whole = cluster.gpus
    came = got = count = seats = 0
    samples: dict[int, list[float]] = {}
    for demand in demands:
        gpu = dict(demand.requests).get(GPU, 0)
        came, count = came + gpu, count + 1
        if cluster.arrive(demand) is not None:
            got, seats = got + gpu, seats + 1
        samples.setdefault(round(100 * came / whole), []).append(100 * got / whole)
    return Outcome(count, seats, {at: sum(own) / len(own) for at, own in samples.items()})
