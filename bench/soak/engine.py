"""The engine and its ledger through which gangs go: VmRSS by tenths, and every container that grew."""

import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from bench.soak import census, memory
from bench.soak.churn import Cluster

FEW: Final = 16
"""Entries that a container of one moment (a picture, a count by reason) may have more than at another."""


def measure(gangs: int, seed: int) -> Iterator[dict[str, Any]]:
    """A line for each tenth of the gangs, then the growth after the warm-up and every container that grew."""
    cluster = Cluster(seed)
    cluster.fill()
    sizes: list[float] = []
    warm: census.Census = {}
    found: census.Census = {}
    began = time.monotonic()
    for part in memory.TENTHS:
        cluster.churn(round(gangs * part))
        cluster.rest()
        found = _beside(cluster)
        warm = warm or (found if part >= memory.WARM else {})
        gc.collect()
        size = memory.of()["rss"]
        sizes.append(size)
        yield {
            "gangs": cluster.made,
            "rss_mib": size,
            "blocks": sys.getallocatedblocks(),
            "seconds": round(time.monotonic() - began, 1),
        }
    yield {
        "gangs": gangs,
        "growth_percent": memory.growth(memory.TENTHS, sizes),
        "grown": [str(one) for one in census.grown(warm, found, FEW)],
        "bounded": census.kept(found),
        "effects": dict(sorted(cluster.told.items())),
    }


def _beside(cluster: Cluster) -> census.Census:
    """What is remembered, counted in a child: the walk needs tens of MiB, which would be growth of ours.

    Raises EOFError where the child fails.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(remembered(cluster)))
    child.start()
    sender.close()
    found: census.Census = receiver.recv()
    child.join()
    return found


def remembered(cluster: Cluster) -> census.Census:
    """What the engine and the modules it is made of keep."""
    return census.of(engine=cluster.engine)
