"""Our process dies between any two of its writes; the next start finishes what was begun, or undoes it.

The writes of a gang of four, in order: the plan on one member; for members that are nominated all four nominations;
then for each member the write that takes its gate. The door before the API server lets k of them through.
"""

import asyncio

import pytest

from bench.plane import Fleet
from bench.plane.installation import Installation
from bench.plane.proxy import Proxy
from tests.stories.support.cluster import Cluster, a_loud_neighbour, gated, said
from tests.stories.support.workloads import QUIET, gang, made_by, pod

HARD, SOFT = 1 + 4, 1 + 4 + 4
"""Writes of a gang of four."""

REPAIRED = 30.0
"""Seconds from our restart until the gang must be whole, rolled back or shown."""


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


def hard(name):
    return [made_by("ReplicaSet", name, 4)]


def soft(name):
    return gang(name, 4)


@pytest.mark.parametrize(("make", "writes"), [(hard, HARD), (soft, SOFT)], ids=["hard", "soft"])
async def test_these_are_all_writes(cluster: Cluster, door: Proxy, make, writes: int):
    """A gang of four that nothing disturbs takes exactly the writes between which the other stories kill."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=2)
    await cluster.submit(*make("gang"))
    await cluster.running("gang", 4)
    await cluster.nothing_held()

    assert [(own.method, own.status) for own in door.writes] == [("PATCH", 200)] * writes


POINTS = [(hard, k) for k in range(HARD + 1)] + [(soft, k) for k in range(SOFT + 1)]


@pytest.mark.parametrize(("make", "writes"), POINTS, ids=[f"{make.__name__}-{k}" for make, k in POINTS])
async def test_killed_after_any_write(cluster: Cluster, door: Proxy, make, writes: int):
    """Killed after k writes and started again, Gangwright makes the gang whole, and a rival that came meanwhile too."""
    await cluster.nodes(racks=2, nodes_per_rack=2, gpus=2)
    door.shut_after(writes)
    await cluster.submit(*make("gang"))
    await asyncio.to_thread(door.until_shut)
    cluster.gangwright.kill()
    await cluster.submit(*make("rival"))
    door.open()
    await asyncio.to_thread(cluster.gangwright.restart)

    await cluster.seated("gang", 4, within=REPAIRED)
    await cluster.seated("rival", 4, within=REPAIRED)
    await cluster.nothing_held()


@pytest.mark.parametrize(("make", "writes"), [(hard, 3), (soft, 7)], ids=["hard", "soft"])
async def test_room_stolen_while_we_were_dead(cluster: Cluster, door: Proxy, make, writes: int):
    """Two of four are on their way, we die, another scheduler takes the other seats: the gang is rolled back or
    shown.
    """
    await cluster.nodes(racks=1, nodes_per_rack=2, gpus=2)
    door.shut_after(writes)
    await cluster.submit(*make("gang"))
    await asyncio.to_thread(door.until_shut)
    places = await cluster.seated("gang", 2)
    cluster.gangwright.kill()
    await cluster.submit(*(pod(f"thief-{n}", gang="thief", scheduler="default-scheduler") for n in range(2)))
    await cluster.seated("thief", 2)
    door.open()
    await asyncio.to_thread(cluster.gangwright.restart)

    shown = await cluster.until("gang", lambda pods: rolled_back(pods) or partly_bound(pods), REPAIRED)
    assert rolled_back(shown) or len(await cluster.bound("gang")) == len(places)

    await cluster.remove("thief")
    await cluster.seated("gang", 4, within=REPAIRED)
    await cluster.nothing_held()


def rolled_back(pods):
    """Everybody waits behind the gate again."""
    return len(pods) == 4 and all(map(gated, pods))


def partly_bound(pods):
    return any(said(own, "PartiallyBound") for own in pods)


@pytest.mark.parametrize("evictions", [1, 3])
async def test_killed_between_evictions_of_a_roll_back(cluster: Cluster, door: Proxy, evictions: int):
    """Two of four can never be bound, and we die after so many of the four were evicted: nobody goes twice, and all
    come back.
    """
    fleet = await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=3))
    await a_loud_neighbour(cluster, fleet[0])
    door.shut_after(evictions, of="/eviction")
    await cluster.submit(made_by("ReplicaSet", "gang", 4, pin="hard", timeout="4s", spec=QUIET))
    await asyncio.to_thread(door.until_shut)
    cluster.gangwright.kill()
    await cluster.remove("loud")
    door.open()
    await asyncio.to_thread(cluster.gangwright.restart)

    await cluster.seated("gang", 4, within=REPAIRED)
    await cluster.nothing_held()
    gone = [own.path for own in door.writes if own.path.endswith("/eviction") and own.status == 201]
    assert evictions <= len(gone) == len(set(gone)) <= 4


async def test_killed_over_and_over(cluster: Cluster, door: Proxy):
    """Killed after every tenth write while eight gangs are placed, Gangwright loses none and gives nothing twice."""
    await cluster.nodes(Fleet(racks=2, nodes_per_rack=4, gpus=4))
    names = [f"gang-{number}" for number in range(8)]
    door.shut_after(10)
    await cluster.submit(*(own for pair in zip(names[::2], names[1::2], strict=True) for own in both(*pair)))
    for _ in range(3):
        await asyncio.to_thread(door.until_shut)
        cluster.gangwright.kill()
        door.shut_after(10)
        await asyncio.to_thread(cluster.gangwright.restart)
    door.open()

    for name in names:
        await cluster.seated(name, 4, within=REPAIRED)
    await cluster.nothing_held()


def both(first, second):
    return [*hard(first), *soft(second)]
