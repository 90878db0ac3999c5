"""Gangs with all kinds of rules at once, more than there is room for, while nodes fail: each ends, none stands half bound
for longer than its time-out, and none blocks another for good.
"""

import asyncio
import time
from random import Random

import pytest
import pytest_asyncio

from bench.plane import Fleet, where
from bench.plane.client import Object
from tests.stories.conftest import Tune
from tests.stories.support.cluster import Cluster
from tests.stories.support.devices import DRIVER, Devices, claiming
from tests.stories.support.storage import DRIVER as VOLUMES
from tests.stories.support.storage import Storage
from tests.stories.support.workloads import made_by
from tests.stories.test_neighbors import HOST, ZONE, apart, even

TIMEOUT = 20.0
"""Seconds: `gangs.timeout` here. A gang may be half bound for this long, and for as long as its pods take to go."""

LEAVING = 10.0
ENDS = 150.0
"""Seconds until all gangs of a try must have ended."""

RACKS, EACH = 2, 3


@pytest_asyncio.fixture
async def nodes(cluster: Cluster, devices: Devices) -> list[str]:
    """Six nodes in two zones with two GPUs, and two devices of a driver each; a class and a template."""
    names = await cluster.nodes(Fleet(racks=RACKS, areas=2, nodes_per_rack=EACH, gpus=2))
    for node in names:
        await devices.on(node, [{"name": "d0"}, {"name": "d1"}])
    await devices.a_class("any", f'device.driver == "{DRIVER}"')
    return names


def some_gang(chance: Random, name: str) -> tuple[Object, int]:
    """A gang of three or four with one or two rules, or none."""
    size, gpus = chance.choice([3, 4]), 1
    spec: Object = {}
    match chance.choice(
        ["apart", "even", "even hosts", "claims", "claims apart", "zone apart", "volume", "plain"]
    ):
        case "apart":
            spec = apart("mixed")
        case "even":
            spec = even("mixed", ZONE)
        case "even hosts":
            spec = even("mixed", HOST)
        case "claims":
            spec, gpus = claiming("any"), 0
        case "claims apart":
            spec, gpus = claiming("any") | apart("mixed"), 0
        case "volume":
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
            spec, size = {"volumes": [volume]}, 2
        case "zone apart":
            spec, size = apart("mixed", ZONE), 2
    return made_by("ReplicaSet", name, size, gpus=gpus, spec=spec, labels={"is": "mixed"}), size


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(2, 40))]
)
async def test_gangs_with_all_kinds_of_rules(
    cluster: Cluster, nodes: list[str], storage: Storage, tune: Tune, seed: int
):
    """Five gangs want more than six nodes have. One node goes and comes back. Each gang runs whole once and ends."""
    # A gang whose volume is on the lost node waits until that node is no longer excluded for it: 5 minutes by default.
    await tune({"gangs.timeout": f"{TIMEOUT:g}s", "gangs.barred": "20s"})
    await storage.a_class("late", VOLUMES)
    await storage.claims("late", *(f"g{number}" for number in range(5)))
    chance, sizes = Random(seed), {}
    for number in range(5):
        made, sizes[f"g{number}"] = some_gang(chance, f"g{number}")
        await cluster.submit(made)
    lost, gone_at = chance.choice(nodes), chance.uniform(0.3, 3.0)
    body = await cluster.api.get(where("nodes", name=lost))
    fails = asyncio.create_task(_fail(cluster, lost, body, gone_at))
    half: dict[str, float] = {}
    began, left = time.monotonic(), dict(sizes)
    while left:
        assert time.monotonic() < began + ENDS, f"still waiting or in part: {left}"
        for name, size in list(left.items()):
            bound = len(await cluster.bound(name))
            if bound == size:
                path = where("replicasets", cluster.namespace, name)
                await cluster.api.delete(path, propagation="Background")
                del left[name]
            elif bound:
                since = half.setdefault(name, time.monotonic())
                assert time.monotonic() < since + TIMEOUT + LEAVING, f"{name}: {bound} of {size}"
            else:
                half.pop(name, None)
        await asyncio.sleep(0.1)
    await fails
    await cluster.nothing_held()


async def _fail(cluster: Cluster, node: str, body: Object, after: float) -> None:
    """The node is deleted, and is back under its name some seconds later."""
    await asyncio.sleep(after)
    await cluster.api.delete(where("nodes", name=node))
    await asyncio.sleep(4)
    meta = {key: body["metadata"][key] for key in ("name", "labels", "annotations")}
    await cluster.api.create(where("nodes"), {**body, "metadata": meta})
