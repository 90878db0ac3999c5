"""The openb tables: nodes, pods, orders of arrival, and published curves.

Lives here: rows as nodes and demands. Never here: where a pod goes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from bench.controller import GPU
from bench.traces import DATA, Row, Rows, TraceError
from scheduler.model.cluster import DEVICE, Node
from scheduler.model.demand import Demand, Operator, Requirement, Term
from scheduler.model.resources import CPU, MEMORY, PODS, amounts

OPENB: Final = DATA / "openb-fgd"
MIXES: Final = ("default", "cpu250", "gpushare100", "gpuspec33", "multigpu50")
SEEDS: Final = tuple(range(42, 52))
PODS_A_NODE: Final = 1001
HOST: Final = "kubernetes.io/hostname"
MODEL: Final = "nvidia.com/gpu.product"
ENDS: Final = 130
"""Percent of all GPUs that the pods of a run request together."""

_MIB: Final = 2**20


def known(mix: str) -> str:
    """The name, if it is a mix.  Raises TraceError."""
    if mix not in MIXES:
        raise TraceError(f"mix: {mix!r} not found. Use one of {', '.join(MIXES)}.")
    return mix


@cache
def cluster() -> Sequence[Node]:
    """The nodes of the published runs, sorted by name.  Raises TraceError."""
    return nodes(OPENB / "openb_node_list_gpu_node.csv")


@cache
def pods_of(mix: str) -> Sequence[Demand]:
    """The demand of each pod of a mix, in the order of its table.  Raises TraceError."""
    return pods(OPENB / f"openb_pod_list_{known(mix)}.csv")


def arrivals_of(mix: str, seed: int) -> Iterator[Demand]:
    """The pods of a mix in the order of one published run.  Raises TraceError."""
    if seed not in SEEDS:
        raise TraceError(f"seed: {seed} not found. Use {SEEDS[0]} to {SEEDS[-1]}.")
    return arrivals(OPENB / f"arrival_order_{known(mix)}.csv", seed, pods_of(mix))


def nodes(path: Path) -> list[Node]:
    """The nodes, sorted by name. GPUs are in thousandths.  Raises TraceError."""
    rows = Rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    return sorted((_node(row) for row in rows), key=lambda node: node.name)


def _node(row: Row) -> Node:
    name = row.text("sn")
    has = {**_common(row), GPU: int(row.number("gpu", whole=True)) * int(DEVICE), PODS: PODS_A_NODE}
    return Node(name, amounts(has), {HOST: name, MODEL: row.text("model")})


def shuffled(own: Sequence[Node], seed: int) -> list[Node]:
    """The nodes in a random order, with new names in that order.

    The published runs break equal scores by the smallest name, and give all nodes random names once a run.
    """
    order = np.random.default_rng(seed).permutation(len(own))
    names = [f"node-{place:04d}" for place in range(len(own))]
    return [
        replace(own[row], name=name, labels={**own[row].labels, HOST: name})
        for name, row in zip(names, order.tolist(), strict=True)
    ]


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


@cache
def published(mix: str) -> Mapping[tuple[str, int], Sequence[float]]:
    """By policy and seed: the allocated GPUs in % of all, at 0% … 130% of arrived demand.  Raises TraceError."""
    workload = f"openb_pod_list_{known(mix)}"
    columns = [str(percent) for percent in range(ENDS + 1)]
    table = Rows(OPENB / "published_allocation_by_arrival.csv", ("workload", "sc_policy", "seed", *columns))
    return {
        (row.text("sc_policy").split("-")[1], int(row.number("seed", whole=True))): [
            row.number(column) for column in columns
        ]
        for row in table
        if row.cells["workload"] == workload
    }
