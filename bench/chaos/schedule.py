"""Which faults come, in which order. Pure: the same seed and numbers give the same faults."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

KINDS: Final = {
    "kill": ("kube-scheduler", "extender", "both"),
    "freeze": ("both", "extender"),
    "outage": ("kube-apiserver", "etcd"),
}
"""What each kind of fault takes in turns."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    what: str
    after: float
    """Seconds between a bind and a kill: at most 50 ms."""

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"


def faults(seed: int, *, kills: int, freezes: int, outages: int) -> Sequence[Fault]:
    chance = random.Random(seed)
    counts = {"kill": kills, "freeze": freezes, "outage": outages}
    found = [
        Fault(kind, what, chance.uniform(0.0, 0.05))
        for kind, count in counts.items()
        for what in islice(cycle(KINDS[kind]), count)
    ]
    chance.shuffle(found)
    return found
