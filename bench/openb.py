"""Pods of the openb traces arrive one by one, some for a share of a GPU, and the planner seats each on single devices.

Lives here: the tables as a snapshot and as demands, and one run under the rules of FGD (Weng et al., USENIX ATC '23):
nothing departs, and a pod that fits nowhere is dropped. Never here: a decision. The node is the planner's word, and the
device inside it follows from the planner's own rule, the tightest that fits.

    python -m bench.openb --seed 42 --strategy pack
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from bench import ending
from bench.controller import GPU
from bench.traces import DATA, Row, Rows, TraceError
from scheduler.model.cluster import DEFAULT_LEVELS, DEVICE, Devices, Node, Snapshot, label_columns, survey
from scheduler.model.decision import Place
from scheduler.model.demand import Demand, Operator, Requirement, Term
from scheduler.model.policy import Policy
from scheduler.model.resources import CPU, MEMORY, PODS, ResourceAxis, amounts
from scheduler.model.workload import Gang, GangKey, Role, Strategy, Uid
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.planner import decide
from scheduler.placement.shared_devices import seated

OPENB: Final = DATA / "openb-fgd"
PODS_A_NODE: Final = 1001
MODEL: Final = "nvidia.com/gpu.product"
AXIS: Final = ResourceAxis().extended([GPU])
_POD: Final = Uid("pod")
_MIB: Final = 2**20


def nodes(path: Path) -> list[Node]:
    """The nodes, sorted by name. GPUs are in thousandths.  Raises TraceError."""
    rows = Rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    return sorted((_node(row) for row in rows), key=lambda node: node.name)


def _node(row: Row) -> Node:
    name = row.text("sn")
    has = {**_common(row), GPU: int(row.number("gpu", whole=True)) * int(DEVICE), PODS: PODS_A_NODE}
    return Node(name, amounts(has), {"kubernetes.io/hostname": name, MODEL: row.text("model")})


def pods(path: Path) -> list[Demand]:
    """The demand of each pod, in the order of the table.  Raises TraceError."""
    return [_demand(row) for row in Rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))]


def _demand(row: Row) -> Demand:
    count, part = int(row.number("num_gpu", whole=True)), int(row.number("gpu_milli", whole=True))
    if count == 1 and not 1 <= part <= DEVICE:
        raise row.wrong("gpu_milli", "from 1 to 1000")
    gpu = part if count == 1 else count * int(DEVICE)
    spec = row.cells.get("gpu_spec")
    models = (Term((Requirement(MODEL, Operator.IN, tuple(spec.split("|"))),)),) if spec else ()
    asked = amounts({**_common(row), GPU: gpu, PODS: 1})
    return Demand(asked, constraints=(models,) if models else ())


def _common(row: Row) -> dict[str, int]:
    return {
        CPU: int(row.number("cpu_milli", whole=True)),
        MEMORY: int(row.number("memory_mib", whole=True)) * _MIB,
    }


def arrivals(path: Path, seed: int, demands: Sequence[Demand]) -> Iterator[Demand]:
    """The pods in the order of one published run.  Raises TraceError."""
    column = f"seed{seed}"
    for row in Rows(path, (column,)):
        if row.cells[column]:
            index = int(row.number(column, whole=True))
            if index >= len(demands):
                raise row.wrong(column, f"below {len(demands)}, the number of pods")
            yield demands[index]


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
        labels=label_columns(own),
        devices=Devices(column, devices),
    )


class Arrivals:
    """A cluster that pods arrive in. `snapshot` is the cluster after the last one."""

    def __init__(self, own: Sequence[Node], strategy: Strategy = Strategy.PACK) -> None:
        self.snapshot = empty(own)
        self._strategy = strategy
        self._policy = Policy()
        self._masks = FeasibilityCache(limit=4096)

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """Pods that arrived and that got a node, and the allocated GPUs in % of all, by arrived GPUs in % of all."""

    arrived: int
    seated: int
    allocated: dict[int, float]


def run(cluster: Arrivals, demands: Iterator[Demand]) -> Outcome:
    """All pods, one by one. The figure at k% is the mean over the arrivals whose sum rounds to k%."""
    whole = cluster.snapshot.capacity[:, AXIS.index[GPU]].sum()
    came = got = count = seats = 0
    samples: dict[int, list[float]] = {}
    for demand in demands:
        gpu = dict(demand.requests).get(GPU, 0)
        came, count = came + gpu, count + 1
        if cluster.arrive(demand) is not None:
            got, seats = got + gpu, seats + 1
        samples.setdefault(round(100 * came / whole), []).append(100 * got / whole)
    return Outcome(count, seats, {at: sum(own) / len(own) for at, own in samples.items()})


def main(
    *,
    mix: Annotated[str, typer.Option(help="Which list of pods in bench/data/openb-fgd.")] = "default",
    seed: Annotated[int, typer.Option(help="Which published order of arrivals.")] = 42,
    strategy: Annotated[Strategy, typer.Option(help="Which of several nodes is preferred.")] = Strategy.PACK,
) -> None:
    """Allocated GPUs when 100% and 130% of all GPUs were asked for, as one object of JSON."""
    demands = pods(OPENB / f"openb_pod_list_{mix}.csv")
    own = nodes(OPENB / "openb_node_list_gpu_node.csv")
    order = arrivals(OPENB / f"arrival_order_{mix}.csv", seed, demands)
    begun = time.perf_counter()
    found = run(Arrivals(own, strategy), order)
    said = {f"allocated_{at}": round(found.allocated[at], 2) for at in (100, 130) if at in found.allocated}
    spent = round(time.perf_counter() - begun, 2)
    print(
        json.dumps({"arrived": found.arrived, "seated": found.seated, **said, "seconds": spent}), flush=True
    )


if __name__ == "__main__":
    ending.run(lambda: typer.run(main), TraceError)
