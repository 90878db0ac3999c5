"""The main road: every pod of ours comes with our gate, and leaves it pinned to its seat, or nominated for it."""

import asyncio

import pytest

from bench.plane import Fleet
from bench.plane.installation import EXTENDER, GATE
from tests.stories.support.cluster import PLAN, Cluster, bound, gated, pinned, seat
from tests.stories.support.workloads import gang, made_by, plain_job, pod

FLEET = Fleet(racks=1, nodes_per_rack=4, gpus=2)


async def test_pods_wait_behind_our_gate(cluster: Cluster):
    """A pod of ours is made with our gate, beside the gates it has; a pod of another scheduler is made as it is."""
    other = {"name": "example.com/quota"}
    made = await cluster.submit(
        pod("a-0", gang="a", min_members=2, spec={"schedulingGates": [other]}),
        pod("b-0", scheduler="default-scheduler"),
    )

    assert made[0]["spec"]["schedulingGates"] == [other, {"name": GATE}]
    assert "schedulingGates" not in made[1]["spec"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
async def test_what_is_made_again_is_pinned(cluster: Cluster, kind: str):
    """Members that their owner makes again at no cost are tied to the node of their seat, and run there."""
    await cluster.nodes(FLEET)
    await cluster.submit(made_by(kind, "hard", 4))

    await cluster.running("hard", 4)

    members = await cluster.members("hard")
    assert [pinned(own) for own in members] == list(bound(members).values())
    assert [seat(own) for own in members] == list(bound(members).values())
    assert sum(PLAN in own["metadata"]["annotations"] for own in members) == 1, "the plan is on one of them"


@pytest.mark.parametrize("make", [gang, plain_job], ids=["bare pods", "plain Job"])
async def test_what_nobody_makes_again_is_nominated(cluster: Cluster, make):
    """Bare pods, and those of a Job that counts every lost pod as a failure, go to their seats without being tied."""
    await cluster.nodes(FLEET)
    made = make("soft", 4)
    await cluster.submit(*(made if isinstance(made, list) else [made]))

    await cluster.running("soft", 4)

    members = await cluster.members("soft")
    assert [pinned(own) for own in members] == [None] * 4
    assert [seat(own) for own in members] == list(bound(members).values())


async def test_pin_as_asked_for(cluster: Cluster):
    """`pin: soft` unties what would be tied, `pin: hard` ties what would not; a pod that nobody makes again is never
    tied.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=6, gpus=2))
    await cluster.submit(
        made_by("ReplicaSet", "soft", 2, pin="soft"),
        plain_job("hard", 2, pin="hard"),
        *gang("bare", 2, pin="hard"),
    )

    for name, tied in (("soft", False), ("hard", True), ("bare", False)):
        await cluster.running(name, 2)
        assert [pinned(own) is not None for own in await cluster.members(name)] == [tied] * 2


async def test_own_affinity_is_kept(cluster: Cluster):
    """A pod's own required affinity holds beside the pin: the gang sits where both agree."""
    fleet = await cluster.nodes(Fleet(racks=2, nodes_per_rack=2, gpus=2))
    term = {"matchExpressions": [{"key": "gangwright.io/rack", "operator": "In", "values": ["r01"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    await cluster.submit(made_by("ReplicaSet", "choosy", 4, spec={"affinity": {"nodeAffinity": required}}))

    assert set((await cluster.running("choosy", 4)).values()) == set(fleet[2:])


async def test_gates_of_others_keep_the_gang_together(cluster: Cluster):
    """While one member is held back by a gate of somebody else nobody starts; when that gate goes, all do, ours
    last.
    """
    await cluster.nodes(FLEET)
    held = pod(
        "a-1",
        gang="a",
        min_members=2,
        spec={"schedulingGates": [{"name": "example.com/quota"}, {"name": GATE}]},
    )
    await cluster.submit(pod("a-0", gang="a", min_members=2), held)
    await cluster.gone_by()
    assert all(map(gated, await cluster.members("a")))

    made = (await cluster.members("a"))[1]
    gone = {"$patch": "delete", "name": "example.com/quota"}
    await cluster.api.patch(cluster.at(made), {"spec": {"schedulingGates": [gone]}})
    await cluster.seated("a", 2)


async def test_single_pods_are_placed_too(cluster: Cluster):
    """A pod of ours without any gang is a gang of one, and is placed."""
    await cluster.nodes(FLEET)
    await cluster.submit(made_by("Job", "alone", 1), pod("single"))

    await cluster.api.until(
        cluster.at({"metadata": {"namespace": cluster.namespace, "name": "single"}}), runs
    )


def runs(own):
    return own["status"].get("phase") == "Running"


async def test_waiting_costs_nothing(cluster: Cluster):
    """Gangs that wait, once told why, cause neither a write of ours nor a question of kube-scheduler's."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=4))
    for name in ("one", "two", "three"):
        await cluster.submit(*gang(name, 8))
        await cluster.told(name, "ExceedsCluster")
    audit, asked = cluster.gangwright.plane.audit, await questions(cluster)
    since = audit.mark()
    await asyncio.sleep(1.5)  # far less than the distance of two equal events

    ours = audit.requests(EXTENDER.user, since=since)
    assert [own for own in ours if own.verb not in {"get", "list", "watch"}] == []
    assert await questions(cluster) == asked


async def questions(cluster: Cluster) -> float:
    return (await cluster.metrics()).value("gangwright_verb_total")
