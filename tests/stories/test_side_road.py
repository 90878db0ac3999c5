"""The side road: a cluster without the gate policy, where kube-scheduler asks about every pod as it comes.

Gangs are whole there too; single pods are scored. The policies that protect our annotations are in force, but for one
story that takes them away.
"""

import asyncio
import json
import signal
import time
from collections.abc import Iterator

import pytest

from bench.plane import ApiError, Fleet, NeverCameError, Plane, watches, where
from bench.plane.client import Object
from bench.plane.installation import EXTENDER, GANGWRIGHT, ROOT, Installation
from bench.plane.proxy import Proxy
from tests.stories.conftest import Tune
from tests.stories.support import rights
from tests.stories.support.cluster import PLAN, SEAT, Cluster, bind, bound, gated, per_node, pinned, racks
from tests.stories.support.workloads import gang, interleaved, made_by, pod
from tests.stories.test_ffdl import EIGHT_GPUS, JOBS, LEARNERS, of_jobs

OVERLAY = ROOT / "manifests" / "overlays" / "without-gate-policy"
CONFIG = ROOT / "extender_config" / "kube-scheduler-without-policy.yaml"
BINDINGS = ("gangwright-only-we-plan", "gangwright-we-only-plan")


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane(controllers=True, audit=True) as running:
        yield running


@pytest.fixture(scope="module")
def way(plane: Plane) -> Iterator[Proxy]:
    with Proxy(plane.url, plane.context(EXTENDER)) as opened:
        yield opened


@pytest.fixture(scope="module")
def gangwright(plane: Plane, way: Proxy) -> Iterator[Installation]:
    """The overlay for older clusters, with its configuration of kube-scheduler; nothing of ours was forbidden there."""
    with Installation(plane, manifests=OVERLAY, config=CONFIG, through=way.url) as installed:
        yield installed
    rights.check(plane.audit)


@pytest.fixture
def door(way: Proxy, gangwright: Installation) -> Iterator[Proxy]:
    """Open, and kube-scheduler goes on, when the story is over."""
    way.forget()
    yield way
    way.open()
    gangwright.kube_scheduler.signal(signal.SIGCONT)
    if not gangwright.extender.alive:
        gangwright.restart()


async def test_gangs_are_whole(cluster: Cluster):
    """Pods without our gate are seated as gangs, in one rack, without any pin, whoever made them."""
    await cluster.nodes(Fleet(racks=3, nodes_per_rack=2, gpus=2))
    await cluster.submit(*gang("bare", 4), made_by("ReplicaSet", "made", 4))

    for name in ("bare", "made"):
        places = await cluster.seated(name, 4)
        members = await cluster.members(name)
        assert len({node.rpartition("-")[0] for node in places.values()}) == 1
        assert not any(gated(own) or pinned(own) for own in members)


async def test_two_run_and_two_wait(cluster: Cluster):
    """Four jobs of four learners on eight GPUs: two run, two wait and say why, each starts when there is room."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*interleaved([gang(job, LEARNERS) for job in JOBS]))
    pods = await watches.until(
        cluster.api, where("pods", cluster.namespace), lambda seen: len(of_jobs(seen, JOBS)) == 2
    )
    running = of_jobs(pods, JOBS)
    waiting = [job for job in JOBS if job not in running]
    assert len(bound(pods)) == 2 * LEARNERS

    for job in waiting:
        await cluster.told(job, "InsufficientResources")
    await cluster.remove(running[0])
    await cluster.complete(running[1])
    for job in waiting:
        await cluster.seated(job, LEARNERS)


async def test_incomplete_gang_holds_nothing(cluster: Cluster):
    """Three of four members wait and keep no room; when the fourth comes all start."""
    await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("late", 3, min_members=4))
    await cluster.told("late", "MissingMembers")
    await cluster.submit(*gang("other", 4))
    await cluster.seated("other", 4)
    assert await cluster.bound("late") == {}

    await cluster.submit(pod("late-3", gang="late", min_members=4))
    await cluster.seated("late", 4)


async def test_kube_schedulers_own_preemption(cluster: Cluster, tune: Tune):
    """Where we make no room, kube-scheduler makes it for a single pod: it asks us, writes its condition on the victim,
    nominates and deletes, all of it allowed by the policies.
    """
    await tune({"queue.preemption": False})
    plane = cluster.gangwright.plane
    began = plane.audit.mark()
    high = {"metadata": {"name": "high"}, "value": 1000}
    await cluster.api.create(where("scheduling.k8s.io/v1/priorityclasses"), high)
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=1))
    slow = {"plane.gangwright.io/stops-in": "1s"}
    await cluster.submit(pod("low", annotations=slow, spec={"terminationGracePeriodSeconds": 30}))
    await cluster.thing("pods", "low", lambda own: own["status"].get("phase") == "Running")
    gate = {"name": "example.com/later"}  # until we know the pod: for one that we do not, no victim is taken
    await cluster.submit(pod("high", spec={"priorityClassName": "high", "schedulingGates": [gate]}))
    await cluster.gone_by()
    high_at = where("pods", cluster.namespace, "high")
    await cluster.api.patch(high_at, {"spec": {"schedulingGates": [{"$patch": "delete", **gate}]}})

    await cluster.thing("pods", "low", preempted)
    await cluster.thing("pods", "high", lambda own: own["status"].get("phase") == "Running")
    used = plane.audit.used(GANGWRIGHT.user, since=began)
    assert used >= {("patch", "pods/status"), ("delete", "pods")}
    assert plane.audit.refused(GANGWRIGHT.user, since=began) == []


def preempted(pod: Object) -> bool:
    """kube-scheduler says on it that it gives way."""
    conditions = pod["status"].get("conditions", [])
    return any(own.get("reason") == "PreemptionByScheduler" for own in conditions)


async def nominated(cluster: Cluster, door: Proxy, writes: int) -> list[Object]:
    """A gang of four of which nobody is bound: we were killed when so many were nominated.

    kube-scheduler is stopped by then: it asked about three, and when the fourth comes the gang is planned.
    """
    await cluster.submit(made_by("ReplicaSet", "gang", 3, min_members=4, timeout="4s"))
    await cluster.told("gang", "MissingMembers")
    cluster.gangwright.kube_scheduler.signal(signal.SIGSTOP)
    door.shut_after(writes, of="/status")
    await cluster.api.patch(where("replicasets", cluster.namespace, "gang"), {"spec": {"replicas": 4}})
    await asyncio.to_thread(door.until_shut)
    cluster.gangwright.kill()
    members = await cluster.members("gang")
    assert sum("nominatedNodeName" in own["status"] for own in members) == writes
    return members


async def go_on(cluster: Cluster, door: Proxy) -> None:
    """kube-scheduler first, which asks nobody for a while."""
    cluster.gangwright.kube_scheduler.signal(signal.SIGCONT)
    door.open()
    await asyncio.to_thread(cluster.gangwright.restart)


async def begin_anew(cluster: Cluster, door: Proxy) -> None:
    """A new kube-scheduler, which knows who is bound: one that was asleep may try the bound one, and write that it is
    not.
    """
    kube_scheduler = cluster.gangwright.kube_scheduler
    kube_scheduler.kill()
    await asyncio.to_thread(kube_scheduler.restart)
    door.open()
    await asyncio.to_thread(cluster.gangwright.restart)


def evicted(door: Proxy) -> list[str]:
    return [write.path for write in door.writes if write.path.endswith("/eviction") and write.status == 201]


@pytest.mark.parametrize(("nominations", "binds"), [(2, 0), (4, 1), (4, 3)])
async def test_killed_half_way(cluster: Cluster, door: Proxy, nominations: int, binds: int):
    """Killed after some nominations, or binds, and started again, we make the gang whole where it began, and a rival
    too.
    """
    await cluster.nodes(Fleet(racks=2, nodes_per_rack=2, gpus=2))
    members = await nominated(cluster, door, nominations)
    for member in members[:binds]:
        await bind(cluster.api, member, member["status"]["nominatedNodeName"])
    await cluster.submit(*gang("rival", 4))
    await go_on(cluster, door)

    places = await cluster.seated("gang", 4)
    await cluster.seated("rival", 4)
    assert len(racks(places)) == 1
    assert places.keys() == {own["metadata"]["name"] for own in members}
    assert evicted(door) == []
    await cluster.nothing_held()


async def test_room_stolen_after_the_first_bind(cluster: Cluster, door: Proxy):
    """We die when one of four is bound, and the others' room is taken: the one is evicted once, and later all four
    are seated.
    """
    await cluster.nodes(EIGHT_GPUS)
    first, *_ = await nominated(cluster, door, 4)
    await bind(cluster.api, first, first["status"]["nominatedNodeName"])
    await cluster.submit(*(pod(f"thief-{n}", gang="thief", scheduler="default-scheduler") for n in range(7)))
    await cluster.seated("thief", 7)
    await begin_anew(cluster, door)

    await cluster.until("gang", lambda pods: len(pods) == 4 and not bound(pods))
    # The pod may be replaced before the door has the answer to its eviction.
    await asyncio.to_thread(door.until_written, lambda: bool(evicted(door)))
    assert evicted(door) == [f"{cluster.at(first)}/eviction"]
    await cluster.remove("thief")
    await cluster.seated("gang", 4)
    assert len(evicted(door)) == 1
    await cluster.nothing_held()


@pytest.mark.parametrize(("strategy", "expected"), [("pack", [4]), ("spread", [1, 1, 1, 1])])
async def test_single_pods_are_scored(cluster: Cluster, strategy: str, expected: list[int]):
    """Single pods choose among all nodes by our scores: packed ones share a node, spread ones do not."""
    before = (await cluster.metrics()).value("gangwright_answers_total", verb="filter", reason="Scored")
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=4))
    for number in range(4):
        await cluster.submit(
            pod(f"single-{number}", labels={"app": "single"}, strategy=strategy, level="host")
        )
        await cluster.thing("pods", f"single-{number}", lambda own: own["spec"].get("nodeName"))

    pods = await cluster.api.items(where("pods", cluster.namespace), labels="app=single")
    assert per_node(bound(pods)) == expected
    scored = (await cluster.metrics()).value("gangwright_answers_total", verb="filter", reason="Scored")
    assert scored >= before + 4


async def test_forged_notes_are_not_believed(cluster: Cluster):
    """Without the policies anybody can write seats and plans: even a restart believes none that would cost others."""
    first, second = await cluster.nodes(EIGHT_GPUS)
    await cluster.submit(*gang("owner", 4, spec={"nodeSelector": {"kubernetes.io/hostname": first}}))
    await cluster.seated("owner", 4)
    await _unprotected(cluster)
    try:
        seat = {SEAT: json.dumps({"node": first, "plan": "mine"})}
        nowhere = {SEAT: json.dumps({"node": "nowhere", "plan": "mine"})}
        await cluster.submit(
            pod("thief-0", gang="thief", min_members=3, annotations=seat),
            pod("thief-1", gang="thief", min_members=3, annotations=nowhere),
        )
        thieves = await cluster.members("thief")
        plan = {"plan": "mine", "seats": {first: [own["metadata"]["uid"] for own in thieves]}}
        await cluster.submit(
            pod("thief-2", gang="thieves", min_members=2, annotations={PLAN: json.dumps(plan)})
        )

        await asyncio.to_thread(cluster.gangwright.restart)
        await cluster.submit(*gang("honest", 4))

        assert set((await cluster.seated("honest", 4)).values()) == {second}
        assert await cluster.bound("thief") == {}
        assert await cluster.bound("thieves") == {}
        await cluster.nothing_held()
    finally:
        await asyncio.to_thread(cluster.gangwright.plane.apply_manifests, OVERLAY)


async def _unprotected(cluster: Cluster, within: float = 30.0) -> None:
    """Takes the policies out of force, and waits until they are."""
    for name in BINDINGS:
        path = where("admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", name=name)
        await cluster.api.delete(path)
    probe = pod("probe", annotations={SEAT: "forged"})
    deadline = time.monotonic() + within
    while True:
        try:
            await cluster.api.request("POST", where("pods", cluster.namespace), body=probe, dryRun="All")
        except ApiError:
            if time.monotonic() > deadline:
                raise NeverCameError("the policies stayed in force") from None
            await asyncio.sleep(0.05)
        else:
            return
