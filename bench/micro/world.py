"""The clusters and gangs that are measured: half full, tainted here and there, two roles. Pure, and always the same."""

from dataclasses import replace
from typing import Final

from scheduler.ledger.neighbor_table import NeighborTable
from scheduler.model.cluster import Node, Snapshot
from scheduler.model.demand import Demand, Operator, Requirement
from scheduler.model.neighbors import Neighbors, PodLabels, PodSelector, PodTerm, TopologySpread
from scheduler.model.policy import Policy
from scheduler.model.resources import DEVICE_CLASS, Amounts
from scheduler.model.workload import Gang, Pod, PodKey, Strategy, Uid
from tests.support.builders import AREA as AREA_LABEL
from tests.support.builders import HOST, a_demand, a_gang, a_node, a_role, a_snapshot, a_taint, some_amounts

RACK: Final = 20
"""Nodes of a rack."""

AREA: Final = 50
"""Racks of an area."""

GPUS: Final = 8
POOL: Final = {"pool": "train"}
LEVELS: Final = ("host", "rack", "area")
CLAIMED: Final = f"{DEVICE_CLASS}gpu.example.com"
POLICY: Final = Policy()


def some_nodes(count: int) -> list[Node]:
    """`count` nodes of eight GPUs; of ten, one is tainted and one is of another pool."""
    return [
        a_node(
            f"n{number:05}",
            cpu=64,
            memory=512,
            gpu=GPUS,
            rack=f"r{number // RACK:03}",
            area=f"a{number // (RACK * AREA):02}",
            labels={"pool": "serve"} if number % 10 == 3 else POOL,
            taints=[a_taint("reserved")] if number % 10 == 7 else [],
        )
        for number in range(count)
    ]


def taken(number: int) -> Amounts:
    """What is used on the node of this number: from nothing to everything, half of it on average."""
    gpus = number * 7 % (GPUS + 1)
    return some_amounts(cpu=gpus * 8, memory=gpus * 64, gpu=gpus, pods=gpus)


def half_full(count: int) -> Snapshot:
    nodes = some_nodes(count)
    return a_snapshot(nodes, used={node.name: taken(number) for number, node in enumerate(nodes)})


def gang(size: int, strategy: Strategy, level: str, *, required: bool) -> Gang:
    """One of sixteen members serves parameters, the others have a GPU each; all are of one pool."""
    servers = size // 16
    roles = (
        a_role("ps", servers, demand=demand(cpu=4, memory=16)),
        a_role("worker", size - servers, demand=demand(cpu=4, memory=32, gpu=1)),
    )
    return a_gang(roles=roles, strategy=strategy, level=level, required=required)


def with_devices(count: int) -> Snapshot:
    """Nodes with eight devices of a class each, as they are counted from the slices of their drivers."""
    devices = {CLAIMED: GPUS}
    return a_snapshot([a_node(f"n{n:05}", rack=f"r{n // RACK:03}", more=devices) for n in range(count)])


def claiming(size: int, strategy: Strategy) -> Gang:
    """Members with a claim for one device each."""
    return a_gang(size, demand=a_demand(4, 32, more={CLAIMED: 1}), strategy=strategy)


def apart(size: int, strategy: Strategy) -> Gang:
    """Members with a GPU each: one a host by anti-affinity, spread over the areas with a skew of 1."""
    mine = PodSelector(("default",), None, (Requirement("app", Operator.IN, ("train",)),))
    rules = Neighbors(
        anti_affinity=(PodTerm(HOST, mine),), spread=(TopologySpread(AREA_LABEL, mine, max_skew=1),)
    )
    role = a_role("", size, demand=demand(cpu=4, memory=32, gpu=1))
    labels = PodLabels("default", (("app", "train"),))
    return a_gang(roles=[replace(role, neighbors=rules, labels=labels)], strategy=strategy)


def beside_others(nodes: int, gang: Gang) -> Snapshot:
    """A half full cluster with a pod of another gang of the same app on every hundredth node."""
    others = [
        (
            Pod(Uid(f"p{n}"), PodKey("default", f"p{n}"), demand(cpu=1, memory=1), labels="app=train"),
            f"n{n:05}",
        )
        for n in range(0, nodes, 100)
    ]
    table = NeighborTable(lambda: others, list)
    for pod, node in others:
        table.put(pod, node)
    return table.picture(half_full(nodes), [gang])


def demand(cpu: float, memory: float, gpu: int = 0) -> Demand:
    return a_demand(cpu, memory, gpu, selector=POOL)
