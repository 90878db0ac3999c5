"""Pods of the openb traces arrive, and the planner seats them on single devices."""

from itertools import islice

import pytest

from bench.controller import GPU
from bench.openb import OPENB, Arrivals, arrivals, nodes, pods, run
from bench.traces import TraceError
from scheduler.model.resources import CPU, MEMORY
from scheduler.model.workload import Strategy
from tests.placement.support.devices import put

NODES = OPENB / "openb_node_list_gpu_node.csv"
ORDER = OPENB / "arrival_order_default.csv"
PODS = pods(OPENB / "openb_pod_list_default.csv")


def test_the_tables_are_what_their_readme_says():
    """1,213 nodes with 6,212 GPUs, and 8,152 pods that arrive more than once until they want 130% of all GPUs."""
    own, order = nodes(NODES), list(arrivals(ORDER, 42, PODS))
    gpus = sum(dict(node.capacity).get(GPU, 0) for node in own)

    assert (len(own), gpus, len(PODS)) == (1213, 6_212_000, 8152)
    assert sum(dict(demand.requests).get(GPU, 0) for demand in order) / gpus == pytest.approx(1.3, abs=0.001)


@pytest.mark.parametrize("strategy", Strategy)
def test_arrivals_agree_with_books(strategy):
    """The first 250 pods on 20 nodes: one is dropped exactly if no node has cores, memory and devices for it, and the
    devices that remain are those of the books."""
    own = nodes(NODES)[::60]
    cluster = Arrivals(own, strategy)
    rows = {node.name: [1000] * (dict(node.capacity)[GPU] // 1000) for node in own}
    left = {node.name: dict(node.capacity) for node in own}
    dropped = 0
    for demand in islice(arrivals(ORDER, 42, PODS), 250):
        asked = dict(demand.requests)
        gpu = asked.get(GPU, 0)
        fits = {
            name
            for name, row in rows.items()
            if all(left[name][kind] >= asked.get(kind, 0) for kind in (CPU, MEMORY))
            and (not gpu or put(row, gpu) is not None)
        }
        node = cluster.arrive(demand)
        dropped += node is None
        assert (node in fits) if fits else node is None
        if node is not None:
            rows[node] = put(rows[node], gpu) if gpu else rows[node]
            left[node] = {kind: amount - asked.get(kind, 0) for kind, amount in left[node].items()}
    devices = cluster.snapshot.devices
    assert devices is not None
    assert [[part for part in row if part >= 0] for row in devices.free.tolist()] == list(rows.values())
    assert 0 < dropped < 250


def test_the_curve():
    """What is allocated is told by what has arrived, and a pod that was dropped does not count."""
    cluster = Arrivals(nodes(NODES)[:4])  # eight GPUs
    whole = next(demand for demand in PODS if dict(demand.requests).get(GPU) == 1000)

    found = run(cluster, iter([whole] * 10))

    assert (found.arrived, found.seated, found.allocated[50], found.allocated[125]) == (10, 8, 50.0, 100.0)


def test_an_order_beyond_the_table(tmp_path):
    """The cell that names no pod is named with its line."""
    path = tmp_path / "order.csv"
    path.write_text("seed42\n0\n9000\n", encoding="utf-8")

    with pytest.raises(TraceError, match=r"line 3: seed42: '9000': must be below 8152"):
        list(arrivals(path, 42, PODS))
