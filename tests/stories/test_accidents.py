"""Nodes, members and schedulers that fail while a gang is half way to its seats.

The door before the API server holds our writes back for a moment, so that an accident happens exactly between two.
"""

import asyncio
import json
import signal

import pytest

from bench.plane import Fleet, watches, where
from bench.plane.client import Object
from bench.plane.installation import Installation
from bench.plane.proxy import Proxy
from tests.stories.support.cluster import PLAN, Cluster, a_loud_neighbour, bound, gated, pinned
from tests.stories.support.workloads import QUIET, disk, made_by, pod
from tests.stories.test_kills import hard, soft

SPARE = Fleet(racks=1, nodes_per_rack=4, gpus=2)
"""Two nodes more than a gang of four needs."""

PLANNED, ALL_BUT_ONE_HARD, ALL_BUT_ONE_SOFT = 1, 4, 8
"""Writes: the plan alone; all of them but the last member's gate."""

MOMENTS = [(hard, PLANNED), (hard, ALL_BUT_ONE_HARD), (soft, PLANNED), (soft, ALL_BUT_ONE_SOFT)]
NAMES = ["hard-planned", "hard-half-way", "soft-planned", "soft-half-way"]


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


async def halted(cluster: Cluster, door: Proxy, members: list[Object], writes: int) -> dict[str, str]:
    """Submits a gang and holds it after so many writes; member → seat, of those that still have their gate.

    Whoever was let go before is bound by then.
    """
    door.hold_after(writes)
    await cluster.submit(*members)
    await asyncio.to_thread(door.until_held)
    pods = await cluster.until("gang", lambda pods: len(bound(pods)) + sum(map(gated, pods)) == 4)
    plan = next(
        own["metadata"]["annotations"][PLAN] for own in pods if PLAN in own["metadata"]["annotations"]
    )
    seats = {uid: node for node, uids in json.loads(plan)["seats"].items() for uid in uids}
    return {own["metadata"]["name"]: seats[own["metadata"]["uid"]] for own in pods if gated(own)}


@pytest.mark.parametrize(("make", "writes"), MOMENTS, ids=NAMES)
@pytest.mark.parametrize("accident", ["deleted", "cordoned", "tainted", "stolen"])
async def test_node_lost_half_way(cluster: Cluster, door: Proxy, make, writes: int, accident: str):
    """A planned node that goes away, closes, or is filled by another scheduler: the gang becomes whole elsewhere."""
    await cluster.nodes(SPARE)
    seats = await halted(cluster, door, make("gang"), writes)
    lost = next(iter(seats.values()))
    taken = await happen(cluster, accident, lost)
    door.open()

    places = await cluster.seated("gang", 4)
    if lost in places.values():
        assert taken, "nobody comes to a node that is lost"
    if accident == "stolen":
        assert len(await cluster.bound("thief")) == 1
    await cluster.nothing_held()


async def happen(cluster: Cluster, accident: str, node: str) -> int:
    """Makes it happen; how many members were on the node already."""
    before = await cluster.bound("gang")
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    match accident:
        case "deleted":
            await cluster.api.delete(where("nodes", name=node))
        case "cordoned":
            await cluster.cordon(node)
        case "tainted":
            await cluster.api.patch(where("nodes", name=node), {"spec": {"taints": [taint]}}, how="merge")
        case "stolen":
            selector = {"nodeSelector": {"kubernetes.io/hostname": node}}
            gpus = 2 - list(before.values()).count(node)
            await cluster.submit(
                pod("thief", gang="thief", gpus=gpus, scheduler="default-scheduler", spec=selector)
            )
            await cluster.seated("thief", 1)
    return list(before.values()).count(node)


@pytest.mark.parametrize("make", [hard, soft])
async def test_member_deleted_while_it_has_a_seat(cluster: Cluster, door: Proxy, make):
    """A member that is deleted between plan and bind takes its gang back to the queue; one that follows completes
    it.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=2))
    names = list(await halted(cluster, door, make("gang"), PLANNED))
    await cluster.api.delete(where("pods", cluster.namespace, names[-1]))
    door.open()

    if make is soft:
        await cluster.told("gang", "MissingMembers")
        await cluster.nothing_held()
        waiting = await cluster.until("gang", lambda pods: not any(map(nominated, pods)))
        assert bound(waiting) == {}
        await cluster.submit(pod(names[-1], gang="gang", min_members=4))
    await cluster.seated("gang", 4)
    await cluster.nothing_held()


def nominated(own):
    return own["status"].get("nominatedNodeName")


async def test_kube_scheduler_restarted_in_a_burst(cluster: Cluster, door: Proxy):
    """kube-scheduler is killed while ten gangs are on their way, and comes back: all ten become whole."""
    await cluster.nodes(Fleet(racks=2, nodes_per_rack=5, gpus=4))
    names = [f"gang-{number}" for number in range(10)]
    await cluster.submit(
        *(own for number, name in enumerate(names) for own in (hard, soft)[number % 2](name))
    )
    await watches.until(cluster.api, where("pods", cluster.namespace), lambda pods: len(bound(pods)) >= 3)
    scheduler = cluster.gangwright.kube_scheduler
    scheduler.kill()
    await asyncio.to_thread(scheduler.restart)

    for name in names:
        await cluster.seated(name, 4)
    await cluster.nothing_held()


async def test_gang_that_is_not_bound_in_time(cluster: Cluster, door: Proxy):
    """kube-scheduler hangs: when its time is up the gang is rolled back and holds nothing; later it is tried again."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=2))
    scheduler = cluster.gangwright.kube_scheduler
    scheduler.signal(signal.SIGSTOP)
    try:
        await cluster.submit(made_by("ReplicaSet", "gang", 4, timeout="1s"))
        first = await cluster.until("gang", lambda pods: len(pods) == 4 and not any(map(gated, pods)))
        names = {own["metadata"]["name"] for own in first}
        await cluster.until("gang", lambda pods: remade(pods, names))
        await cluster.told("gang", "BackingOff")
    finally:
        scheduler.signal(signal.SIGCONT)

    await cluster.seated("gang", 4)
    await cluster.nothing_held()


def remade(pods, names):
    """All four are others than these."""
    return len(pods) == 4 and not names & {own["metadata"]["name"] for own in pods}


async def test_seat_that_kube_scheduler_refuses_for_ever(cluster: Cluster, door: Proxy):
    """Pinned to a node that a rule of kube-scheduler's forbids, members are evicted, made again and seated
    elsewhere.
    """
    fleet = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await a_loud_neighbour(cluster, fleet[0])
    before = await cluster.metrics()
    await cluster.submit(made_by("ReplicaSet", "gang", 2, pin="hard", spec=QUIET))

    assert set((await cluster.seated("gang", 2, within=45)).values()) == {fleet[1]}
    after = await cluster.measured(lambda seen: broken(seen) > broken(before))
    assert broken(after) > broken(before)
    await cluster.nothing_held()


def broken(metrics):
    return metrics.value("gangwright_pins_broken_total", cause="refused")


async def test_rule_that_we_do_not_model(cluster: Cluster, door: Proxy):
    """Left to ourselves we never pin a pod with a rule that we do not model: nominated, it goes where kube-scheduler
    lets it.
    """
    fleet = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4))
    await a_loud_neighbour(cluster, fleet[0])
    await cluster.submit(made_by("ReplicaSet", "gang", 2, spec=QUIET))

    assert set((await cluster.seated("gang", 2)).values()) == {fleet[1]}
    assert [pinned(own) for own in await cluster.members("gang")] == [None, None]


async def test_gang_that_kube_scheduler_refuses_in_part(cluster: Cluster):
    """There is room for all by their GPUs, and kube-scheduler binds some: these give their nodes back within seconds."""
    fleet = await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=4))
    fleet += await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=1, prefix="small"))
    await cluster.submit(made_by("ReplicaSet", "torn", 5, spec=disk(shared=False)))

    path = where("pods", cluster.namespace)
    await watches.until(cluster.api, path, lambda pods: len(bound(pods)) > 0)
    await watches.until(cluster.api, path, lambda pods: len(pods) >= 5 and not bound(pods))
    await cluster.told("torn", "BackingOff")
