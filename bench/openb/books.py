"""The free capacity of a cluster as arrays, a row a node, and which nodes fit a pod.

The order of the rows is the tie rule: of equal scores, the first row wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.controller import GPU
from bench.openb.mixes import MODEL
from scheduler.model.cluster import DEVICE, Node
from scheduler.model.demand import Demand
from scheduler.model.resources import CPU, MEMORY, PODS

WHOLE: Final = int(DEVICE)
KINDS: Final = 9
"""Sorts of GPU pods: 0 shares a device, k has k whole devices."""

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod requests: thousandths of a CPU, bytes, `count` devices with `part` thousandths of each free.

    models: the GPU models that it accepts, and every model if empty.
    """

    cpu: int
    memory: int = 0
    count: int = 0
    part: int = 0
    models: tuple[str, ...] = ()

    @classmethod
    def of(cls, demand: Demand) -> "Shape":
        wanted = dict(demand.requests)
        gpu = wanted.get(GPU, 0)
        models = [row for terms in demand.constraints for term in terms for row in term.labels]
        return cls(
            wanted.get(CPU, 0),
            wanted.get(MEMORY, 0),
            max(gpu // WHOLE, min(gpu, 1)),
            min(gpu, WHOLE),
            models[0].values if models else (),
        )

    @property
    def gpu(self) -> int:
        """Thousandths of all devices."""
        return self.count * self.part

    @property
    def shares(self) -> bool:
        return 0 < self.part < WHOLE

    @property
    def kind(self) -> int:
        """Of a GPU pod, a number below KINDS."""
        return 0 if self.shares else self.count


class Books:
    """What is free on each of n nodes.

    cpu, memory, pods: int64[n].  devices: int64[n, d], the free thousandths, and 0 beyond the devices of a node.
    count: int64[n], its devices.  models: int64[n], the place of its GPU model in `names`.
    kinds: bool[n, KINDS], which sorts of GPU pods it has.
    """

    def __init__(self, own: Sequence[Node]) -> None:
        has = [dict(node.capacity) for node in own]
        self.cpu, self.memory, self.pods = (
            np.array([row[kind] for row in has], np.int64) for kind in (CPU, MEMORY, PODS)
        )
        self.count: Ints = np.array([row.get(GPU, 0) // WHOLE for row in has], np.int64)
        self.devices: Ints = (np.arange(self.count.max(initial=0)) < self.count[:, None]) * np.int64(WHOLE)
        self.names = tuple(sorted({node.labels[MODEL] for node in own}))
        self.models: Ints = np.array([self.names.index(node.labels[MODEL]) for node in own], np.int64)
        self.kinds: Bools = np.zeros((len(own), KINDS), bool)

    def __len__(self) -> int:
        return len(self.cpu)

    def accepted(self, shape: Shape) -> Ints:
        """The rows with a GPU model that the pod accepts."""
        accepts = np.array([not shape.models or name in shape.models for name in self.names], bool)
        return np.flatnonzero(accepts[self.models])

    def fits(self, rows: Ints, shape: Shape) -> Bools:
        """Which of these rows have the capacity for the pod."""
        fit = (self.cpu[rows] >= shape.cpu) & (self.memory[rows] >= shape.memory) & (self.pods[rows] > 0)
        if shape.count:
            fit &= (self.devices[rows] >= shape.part).sum(axis=1) >= shape.count
        return fit

    def take(self, row: int, shape: Shape, device: int) -> None:
        """The pod goes to a node that fits it. device: of a pod that shares one; other pods take the first idle ones."""
        self.cpu[row] -= shape.cpu
        self.memory[row] -= shape.memory
        self.pods[row] -= 1
        if shape.count:
            self.kinds[row, shape.kind] = True
            idle = np.flatnonzero(self.devices[row] == WHOLE)[: shape.count]
            self.devices[row, device if shape.shares else idle] -= shape.part
