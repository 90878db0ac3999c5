"""Room is made for a gang that matters more: by whom, how far, and what happens when it does not go as planned."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.plane import Fleet, Plane, watches, where
from bench.plane.client import Object
from bench.plane.installation import Installation
from bench.plane.kubelet import Image, Kubelet
from bench.plane.proxy import Proxy
from tests.stories.conftest import Outages, Tune
from tests.stories.support.cluster import Cluster, bound, gated, said
from tests.stories.support.workloads import GANG, gang, made_by, pod

EIGHT = Fleet(racks=1, nodes_per_rack=2, gpus=4)
EVICTION = "/eviction"

HEEDS = ["sh", "-c", "trap exit TERM; echo up; while sleep 0.1; do :; done"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo up; while sleep 0.1; do :; done"]
"""Commands of pods that end when they are asked to, and of those that have to be killed."""

pytestmark = pytest.mark.usefixtures("priorities")


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


def of(priority: str, **spec: object) -> Object:
    """The part of a pod's description that says how much it matters."""
    return {"priorityClassName": priority, **spec}


def urgent(name: str, size: int, **words: object) -> list[Object]:
    return gang(name, size, spec=of("urgent"), **words)


def evicted(door: Proxy) -> list[str]:
    """The pods that were evicted through the door, by the API server's leave."""
    return [
        own.path.split("/")[-2] for own in door.writes if own.path.endswith(EVICTION) and own.status == 201
    ]


async def full(cluster: Cluster) -> None:
    """Two gangs of four fill all eight GPUs, each a node."""
    await cluster.nodes(EIGHT)
    for name in ("first", "second"):
        await cluster.submit(made_by("ReplicaSet", name, 4))
        await cluster.running(name, 4)


async def whole_or_gone(cluster: Cluster) -> set[str]:
    """The gangs of `full` that run whole; the other waits behind its gate with all its members made again."""
    whole = set()
    for name in ("first", "second"):
        seen = await cluster.until(name, lambda pods: len(bound(pods)) == 4 or waits_whole(pods))
        whole |= {name} if len(bound(seen)) == 4 else set()
    return whole


def waits_whole(pods: list[Object]) -> bool:
    return len(pods) == 4 and all(map(gated, pods))


async def test_a_whole_gang_gives_way(cluster: Cluster, door: Proxy):
    """Of two gangs that fill the cluster, one is evicted whole and the other not touched; the urgent gang runs in
    its place, and the pods and their owner are told so.
    """
    await full(cluster)
    before = {name: await cluster.bound(name) for name in ("first", "second")}
    await cluster.submit(*urgent("storm", 4))

    places = await cluster.running("storm", 4)
    (stays,) = await whole_or_gone(cluster)
    assert await cluster.bound(stays) == before[stays]
    (gave,) = before.keys() - {stays}
    assert sorted(evicted(door)) == sorted(before[gave])
    assert set(places.values()) == set(before[gave].values())
    for about in (gave, *before[gave]):
        assert f"gang {cluster.namespace}/storm, priority" in await cluster.event(about, "Preempted")
    await cluster.nothing_held()


async def test_surplus_goes_first(cluster: Cluster, door: Proxy):
    """Where members above a quorum take the room, they alone give way: the quorum of the elastic gang runs on all
    the time.
    """
    await cluster.nodes(EIGHT)
    core = [pod(f"core-{n}", gang="elastic", min_members=2) for n in range(2)]
    more = [pod(f"more-{n}", gang="elastic", min_members=2, surplus=True, spec=of("spare")) for n in range(6)]
    await cluster.submit(*core, *more)
    await cluster.running("elastic", 8)
    await cluster.submit(*urgent("storm", 4))

    await cluster.running("storm", 4)
    assert len(evicted(door)) == 4
    assert all(name.startswith("more-") for name in evicted(door))
    left = await cluster.members("elastic")
    assert len(bound(left)) == 4
    assert not any(own["metadata"].get("deletionTimestamp") for own in left)


async def test_no_more_than_needed(cluster: Cluster, door: Proxy):
    """Beside a gang of four, single pods suffice: two of them give way for two members, and the gang is left alone."""
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("crew", 4))
    await cluster.running("crew", 4)
    await cluster.submit(*(pod(f"single-{n}", gang=f"single-{n}", min_members=1) for n in range(4)))
    for number in range(4):
        await cluster.running(f"single-{number}", 1)
    await cluster.submit(*urgent("storm", 2))

    await cluster.running("storm", 2)
    assert len(evicted(door)) == 2
    assert all(name.startswith("single-") for name in evicted(door))
    assert len(await cluster.bound("crew")) == 4


async def test_equal_priority_gives_no_way(cluster: Cluster, door: Proxy):
    """A gang of the same priority waits for room, is told so, and nobody is evicted for it."""
    await full(cluster)
    await cluster.submit(*gang("peer", 4))

    await cluster.told("peer", "InsufficientResources")
    await cluster.gone_by()
    assert evicted(door) == []


async def test_a_class_that_never_preempts(cluster: Cluster, door: Proxy):
    """A gang of a high class with `preemptionPolicy: Never` goes before others in the queue, but nobody leaves for
    it.
    """
    await full(cluster)
    await cluster.submit(*gang("polite", 4, spec=of("patient")))
    await cluster.told("polite", "InsufficientResources")
    await cluster.submit(*gang("peer", 4))
    await cluster.gone_by()
    assert evicted(door) == []

    await cluster.api.delete(where("replicasets", cluster.namespace, "first"))
    await cluster.seated("polite", 4)
    assert await cluster.bound("peer") == {}


def budget(name: str, **words: object) -> Object:
    """A PodDisruptionBudget over the pods of a controller of that name."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **words},
    }


async def protect(cluster: Cluster, name: str, **words: object) -> None:
    budgets = where("poddisruptionbudgets", cluster.namespace)
    await cluster.api.create(budgets, budget(name, **words))
    known = where("poddisruptionbudgets", cluster.namespace, name)
    await cluster.api.until(known, lambda own: own.get("status", {}).get("expectedPods") == 4)


@pytest.mark.parametrize("allowed", [0, 1])
async def test_budgets_are_read_before_a_pod_is_asked(cluster: Cluster, door: Proxy, allowed: int):
    """Gangs that their budgets let go in part or not at all are not asked: the other is told that there is no room."""
    await full(cluster)
    for name in ("first", "second"):
        await protect(cluster, name, maxUnavailable=allowed)
    await cluster.submit(*urgent("storm", 4))

    assert "needs 4 ×" in await cluster.told("storm", "InsufficientResources")
    await cluster.gone_by()
    assert (evicted(door), refused(door)) == ([], 0)
    for name in ("first", "second"):
        await cluster.api.delete(where("poddisruptionbudgets", cluster.namespace, name))
    await cluster.running("storm", 4)


async def protected_meanwhile(cluster: Cluster, door: Proxy, refusals: int, **words: object) -> None:
    """An urgent gang comes, and before a pod is evicted for it both gangs of `full` have a budget, which refuses."""
    await full(cluster)
    door.hold_after(0, of=EVICTION)
    await cluster.submit(*urgent("storm", 4))
    await asyncio.to_thread(door.until_held)
    for name in ("first", "second"):
        await protect(cluster, name, **words)
    door.open()
    await asyncio.to_thread(door.until_written, lambda: refused(door) >= refusals)


async def test_a_budget_that_never_allows(cluster: Cluster, door: Proxy, tune: Tune):
    """Victims that a disruption budget protects stay; the gang waits and says so, and gives up the room that it will
    not get.
    """
    await tune({"gangs.timeout": "6s"})
    await protected_meanwhile(cluster, door, 4, maxUnavailable=0)

    assert "pods remaining: 4" in await cluster.told("storm", "WaitingForPreemption")
    assert "needs 4 ×" in await cluster.told("storm", "InsufficientResources")
    await cluster.nothing_held()
    assert evicted(door) == []
    for name in ("first", "second"):
        assert len(await cluster.running(name, 4)) == 4


def refused(door: Proxy) -> int:
    """Evictions that a disruption budget did not allow."""
    return sum(own.path.endswith(EVICTION) and own.status == 429 for own in door.writes)


async def test_a_budget_that_takes_a_gang_apart(cluster: Cluster, door: Proxy):
    """A budget that allows one of four: when the others stay, the plan is given up, and the gang is whole again at
    once.
    """
    await protected_meanwhile(cluster, door, 1, maxUnavailable=1)

    for name in ("first", "second"):
        await cluster.running(name, 4)
    # What waits at the door goes through one by one, so another one may pass when the first is made again.
    assert len(evicted(door)) in {1, 2}
    await cluster.told("storm", "InsufficientResources")
    await cluster.nothing_held()


async def test_a_victim_is_deleted_by_its_owner_meanwhile(cluster: Cluster, door: Proxy):
    """Victims that may not be evicted leave by themselves: the gang that waits for their room has it then."""
    await protected_meanwhile(cluster, door, 4, maxUnavailable=0)
    for name in ("first", "second"):
        await cluster.api.delete(where("replicasets", cluster.namespace, name))

    await cluster.running("storm", 4)
    assert evicted(door) == []


async def test_two_that_make_room_at_a_time(cluster: Cluster, door: Proxy):
    """Two urgent gangs come at once: each has a room of its own made for it, and nobody is evicted twice."""
    await full(cluster)
    await cluster.submit(*urgent("storm", 4), *urgent("flood", 4))

    await cluster.running("storm", 4)
    await cluster.running("flood", 4)
    assert len(evicted(door)) == len(set(evicted(door))) == 8


async def test_the_api_server_is_away_half_way(cluster: Cluster, door: Proxy, outages: Outages):
    """After two of four evictions the API server goes away and comes back: the gang is seated, and nobody else
    leaves.
    """
    await full(cluster)
    before = {name: await cluster.bound(name) for name in ("first", "second")}
    door.hold_after(2, of=EVICTION)
    await cluster.submit(*urgent("storm", 4))
    await asyncio.to_thread(door.until_held)
    with outages.one():
        await asyncio.to_thread(cluster.gangwright.plane.apiserver.stop)
        door.open()
        await asyncio.to_thread(cluster.gangwright.plane.apiserver.restart)

        await cluster.running("storm", 4)
    (stays,) = await whole_or_gone(cluster)
    assert await cluster.bound(stays) == before[stays]


def by_a_gang(pod: Object) -> str:
    """The gang that it was evicted for, by its condition: the Eviction API's own reason does not stay there."""
    conditions = pod["status"].get("conditions", [])
    mine = [own for own in conditions if (own["type"], own["status"]) == ("DisruptionTarget", "True")]
    return next((str(own["message"]) for own in mine if own["reason"] == "PreemptedByGang"), "")


async def test_the_preemptor_is_deleted_half_way(cluster: Cluster, door: Proxy, tune: Tune):
    """Two of four victims are on their way out when the gang is deleted: nobody else is asked, and their room is for
    others.
    """
    await tune({"queue.evictionsPerNamespace": 2})
    await cluster.nodes(EIGHT)
    slow = {
        "annotations": {"plane.gangwright.io/stops-in": "3s"},
        "spec": {"terminationGracePeriodSeconds": 30},
    }
    await cluster.submit(*(pod(f"single-{n}", gang=f"single-{n}", min_members=1, **slow) for n in range(8)))
    for number in range(8):
        await cluster.running(f"single-{number}", 1)
    await cluster.submit(*urgent("storm", 4))
    await cluster.told("storm", "WaitingForPreemption")
    await asyncio.to_thread(door.until_written, lambda: len(evicted(door)) == 2)
    for name in evicted(door):
        told = await cluster.thing("pods", name, by_a_gang)
        assert "/storm, priority" in by_a_gang(told)
    await cluster.remove("storm")

    await cluster.submit(*gang("heir", 2))
    await cluster.seated("heir", 2)
    await cluster.nothing_held()
    assert len(evicted(door)) == 2


async def test_two_that_want_one_room(cluster: Cluster, door: Proxy):
    """Of two urgent gangs that only one gang could give way to, one runs whole in its place; the other is told that
    it waits.
    """
    await cluster.nodes(EIGHT)
    await cluster.submit(*urgent("rock", 4), made_by("ReplicaSet", "crew", 4))
    rock = await cluster.running("rock", 4)
    crew = await cluster.running("crew", 4)
    door.hold_after(2, of=EVICTION)
    await cluster.submit(*urgent("storm", 4), *urgent("flood", 4))
    await asyncio.to_thread(door.until_held)
    (waits,) = {"storm", "flood"} - {await told_one(cluster, "WaitingForPreemption", "storm", "flood")}
    await cluster.told(waits, "InsufficientResources")
    door.open()

    (runs,) = {"storm", "flood"} - {waits}
    places = await cluster.running(runs, 4)
    assert set(places.values()) == set(crew.values())
    await cluster.until("crew", waits_whole)
    await cluster.gone_by()
    assert sorted(evicted(door)) == sorted(crew)
    assert await cluster.bound("rock") == rock
    assert await cluster.bound(waits) == {}

    await cluster.remove(runs)
    await cluster.running(waits, 4)
    await cluster.nothing_held()


async def told_one(cluster: Cluster, reason: str, *gangs: str) -> str:
    """The first of these gangs that is told this reason."""
    pods, among = where("pods", cluster.namespace), f"{GANG} in ({', '.join(gangs)})"
    found = await watches.until(
        cluster.api, pods, lambda seen: any(said(own, reason) for own in seen), labels=among
    )
    name: str = next(own["metadata"]["labels"][GANG] for own in found if said(own, reason))
    return name


@pytest_asyncio.fixture
async def kubelet(plane: Plane, cluster: Cluster) -> AsyncIterator[Kubelet]:
    """Four GPUs on two nodes whose pods run as processes; one that names no command of its own ends when it is asked
    to.
    """
    fleet = Fleet(prefix="real-", racks=1, nodes_per_rack=2, gpus=2)
    running = Kubelet(plane, fleet, images={"none": Image(entrypoint=HEEDS)})
    await asyncio.to_thread(running.start)
    yield running
    await asyncio.to_thread(running.stop)


async def test_a_victim_that_does_not_heed(cluster: Cluster, door: Proxy, kubelet: Kubelet):
    """Two of four victims stay until they are killed: nobody else has the room of those that went, not even after our
    restart, and the gang starts whole."""
    patient = {"terminationGracePeriodSeconds": 60}
    crew = gang("crew", 4, spec=patient)
    for member in crew[:2]:
        member["spec"]["containers"][0]["command"] = STUBBORN
    await cluster.submit(*crew)
    await cluster.running("crew", 4)
    for member in crew:
        await up(kubelet, f"{cluster.namespace}/{member['metadata']['name']}")
    await cluster.submit(*urgent("storm", 4))
    stubborn = await cluster.until("crew", lambda pods: len(pods) == 2)

    await cluster.submit(*gang("small", 2, expected_runtime="1s"))
    await cluster.told("small", "InsufficientResources")
    cluster.gangwright.kill()
    await asyncio.to_thread(cluster.gangwright.restart)
    await cluster.submit(*urgent("flood", 2))
    await cluster.told("flood", "InsufficientResources")
    assert len(await cluster.bound("crew")) == 2
    assert await cluster.bound("storm") == {}
    for member in stubborn:
        await cluster.api.delete(cluster.at(member), grace=1)

    await cluster.running("storm", 4)
    assert sorted(evicted(door)) == [f"crew-{number}" for number in range(4)]
    assert await cluster.bound("small") == await cluster.bound("flood") == {}


async def up(kubelet: Kubelet, member: str) -> None:
    """The pod's command has said how it takes SIGTERM."""
    async with asyncio.timeout(20):
        while "up" not in kubelet.log(member):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("evictions", [0, 1, 2, 3, 4])
async def test_killed_between_eviction_and_seat(cluster: Cluster, door: Proxy, evictions: int):
    """Killed after k evictions and started again, Gangwright seats the whole gang, and nobody but one gang gave way."""
    await full(cluster)
    before = {name: await cluster.bound(name) for name in ("first", "second")}
    door.shut_after(evictions, of=EVICTION)
    await cluster.submit(*urgent("storm", 4))
    await asyncio.to_thread(door.until_shut)
    cluster.gangwright.kill()
    door.open()
    await asyncio.to_thread(cluster.gangwright.restart)

    await cluster.running("storm", 4)
    (stays,) = await whole_or_gone(cluster)
    assert await cluster.bound(stays) == before[stays]
    await cluster.nothing_held()
