"""A cluster whose nodes Gangwright's planner chooses. The tightest device inside follows from its own rule."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from bench.controller import GPU
from scheduler.model.cluster import DEFAULT_LEVELS, DEVICE, Devices, LabelColumns, Node, Snapshot, survey
from scheduler.model.decision import Place
from scheduler.model.demand import Demand
from scheduler.model.policy import Policy
from scheduler.model.resources import ResourceAxis
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.planner import decide
from scheduler.placement.shared_devices import seated

AXIS: Final = ResourceAxis().extended([GPU])
_POD: Final = Uid("pod")


def empty(own: Sequence[Node]) -> Snapshot:
    """These nodes without pods, each GPU as a device of its own."""
    capacity = np.array([AXIS.vector(node.capacity) for node in own]).reshape(len(own), len(AXIS))
    column = AXIS.index[GPU]
    count = capacity[:, column] / DEVICE
    devices = np.where(np.arange(int(count.max(initial=0))) < count[:, None], DEVICE, -1.0)
    names = tuple(node.name for node in own)
    return Snapshot(
        generation=0,
        nodes_version=0,
        axis=AXIS,
        names=names,
        index={name: row for row, name in enumerate(names)},
        free=capacity.copy(),
        capacity=capacity,
        topology=survey(DEFAULT_LEVELS, [node.labels for node in own]),
        schedulable=np.ones(len(own), dtype=bool),
        labels=LabelColumns(own),
        devices=Devices(column, devices),
    )


class Arrivals:
    """A cluster that pods arrive in. `snapshot` is the cluster after the last one.

    The planner breaks ties by the order of the nodes.
    """

    def __init__(self, own: Sequence[Node], strategy: Strategy = Strategy.PACK) -> None:
        self.snapshot = empty(own)
        self._strategy = strategy
        self._policy = Policy()
        self._masks = FeasibilityCache(limit=4096)

    @property
    def gpus(self) -> float:
        """Thousandths of a GPU, free or not."""
        return float(self.snapshot.capacity[:, AXIS.index[GPU]].sum())

    def arrive(self, demand: Demand) -> str | None:
        """The node of the next pod. None: it fits nowhere and is dropped."""
        role = Role("", demand, (_POD,))
        gang = Gang(GangKey("openb", "pod"), (role,), self._strategy, "host", required=False)
        decision = decide(self.snapshot, gang, self._policy, masks=self._masks)
        if not isinstance(decision, Place):
            return None
        node = decision.seats[_POD]
        self._take(self.snapshot.index[node], demand)
        return node

    def _take(self, row: int, demand: Demand) -> None:
        before = self.snapshot
        free, one = before.free.copy(), np.zeros(len(before.names))
        free[row] -= AXIS.vector(demand.requests)
        one[row] = 1
        asked = [(AXIS.index[name], wanted) for name, wanted in demand.requests]
        devices = None if before.devices is None else seated(before.devices, asked, one)
        self.snapshot = replace(before, generation=before.generation + 1, free=free, devices=devices)
