"""Gangs whose pods ask for other pods near them or away from them, in front of the real kube-scheduler: whole, or waiting
whole with the rule's name.
"""

import pytest

from bench.plane import Fleet, watches, where
from tests.stories.support.cluster import Cluster, bound
from tests.stories.support.workloads import gang, made_by, plain_job, pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def apart(value: str, key: str = HOST) -> dict:
    """At most one pod with is=value in each domain."""
    term = {"labelSelector": {"matchLabels": {"is": value}}, "topologyKey": key}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even(value: str, key: str = ZONE, **more: object) -> dict:
    """The domains differ by at most one pod with is=value."""
    rule = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"is": value}},
        **more,
    }
    return {"topologySpreadConstraints": [rule]}


async def test_a_member_a_host_on_too_few_hosts(cluster: Cluster):
    """Four members that keep apart wait whole on three hosts, and the message names the rule. A fourth host lets all in."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=4))
    await cluster.submit(plain_job("gang", 4, spec=apart("alone"), labels={"is": "alone"}))
    told = await cluster.told("gang", "ExceedsCluster")
    assert "the cluster fits 3 (at most one member per host by anti-affinity" in told
    await cluster.gone_by()
    assert await cluster.bound("gang") == {}

    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=4, prefix="more"))
    assert len(set((await cluster.seated("gang", 4)).values())) == 4


async def test_two_gangs_of_which_each_needs_every_host(cluster: Cluster):
    """There is room for both by their GPUs. One is whole, the other has nothing, no pod of a Job failed, and it starts
    when the first has ended.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=4))
    words = {"spec": apart("alone"), "labels": {"is": "alone"}}
    await cluster.submit(plain_job("one", 4, **words), plain_job("other", 4, **words), at_once=2)
    path = where("pods", cluster.namespace)
    found = await watches.until(cluster.api, path, lambda pods: len(bound(pods)) == 4)
    (whole,) = {name.rpartition("-")[0] for name in bound(found)}
    waits = {"one": "other", "other": "one"}[whole]

    told = await cluster.told(waits, "InsufficientResources")
    assert "4 node(s) didn't match pod anti-affinity rules" in told
    assert (len(await cluster.bound(whole)), await cluster.bound(waits)) == (4, {})
    for name in (whole, waits):
        assert not (await cluster.thing("jobs", name))["status"].get("failed")
    await cluster.api.delete(where("jobs", cluster.namespace, whole), propagation="Background")
    assert len(set((await cluster.seated(waits, 4)).values())) == 4


@pytest.mark.parametrize("make", [gang, made_by], ids=["nominated", "pinned"])
async def test_a_spread_over_zones(cluster: Cluster, make):
    """Six members over two zones end three and three, tied to their nodes or not. kube-scheduler refuses none of them."""
    await cluster.nodes(Fleet(racks=2, areas=2, nodes_per_rack=3, gpus=2))
    words = {"spec": even("even"), "labels": {"is": "even"}}
    made = make("gang", 6, **words) if make is gang else [make("ReplicaSet", "gang", 6, **words)]
    await cluster.submit(*made)

    places = await cluster.seated("gang", 6)
    zones = [node.rpartition("-")[0] for node in places.values()]
    assert sorted(zones.count(zone) for zone in set(zones)) == [3, 3]
    events = (await cluster.api.get(where("events", cluster.namespace)))["items"]
    assert not [own["note"] for own in events if own["reason"] == "FailedScheduling"]


async def test_a_spread_that_not_all_can_keep(cluster: Cluster):
    """One host holds a single member, so five of five do not fit by maxSkew 1: none is bound, and the rule is named."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=4))
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=1, prefix="small"))
    await cluster.submit(made_by("ReplicaSet", "gang", 5, spec=even("even", HOST), labels={"is": "even"}))
    told = await cluster.told("gang", "InsufficientResources")
    assert "the cluster fits 3 (spread over host with maxSkew 1" in told
    await cluster.gone_by()
    assert await cluster.bound("gang") == {}


async def test_a_spread_with_more_domains_than_a_pin_leaves(cluster: Cluster):
    """A pod tied to one node has one domain, and `minDomains: 2` would forbid it. So such members are nominated."""
    await cluster.nodes(Fleet(racks=2, areas=2, nodes_per_rack=2, gpus=2))
    words = {"spec": even("even", minDomains=2), "labels": {"is": "even"}}
    await cluster.submit(made_by("ReplicaSet", "gang", 4, pin="hard", **words))
    zones = [node.rpartition("-")[0] for node in (await cluster.seated("gang", 4)).values()]
    assert sorted(zones.count(zone) for zone in set(zones)) == [2, 2]


async def test_members_near_each_other(cluster: Cluster):
    """Four members that want one zone among them, two on a node, get one zone; kube-scheduler takes the first as such."""
    await cluster.nodes(Fleet(racks=2, areas=2, nodes_per_rack=2, gpus=2))
    term = {"labelSelector": {"matchLabels": {"is": "near"}}, "topologyKey": ZONE}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    await cluster.submit(*gang("gang", 4, spec=near, labels={"is": "near"}))
    places = await cluster.seated("gang", 4)
    assert len({node.rpartition("-")[0] for node in places.values()}) == 1


@pytest.mark.usefixtures("priorities")
async def test_no_victim_where_no_member_may_go(cluster: Cluster):
    """On one of three nodes stands a pod that members keep away from. The two gangs on the other nodes leave, no more."""
    fleet = await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=4))
    low = {"priorityClassName": "spare"}
    for number, node in enumerate(fleet):
        here = {"nodeSelector": {HOST: node}, **low}
        await cluster.submit(made_by("ReplicaSet", f"low{number}", 1, gpus=4, spec=here))
        await cluster.running(f"low{number}", 1)
    there = {"nodeSelector": {HOST: fleet[0]}}
    await cluster.submit(
        pod("noisy", gang="noisy", min_members=1, gpus=0, spec=there, labels={"is": "noisy"})
    )
    await cluster.running("noisy", 1)
    rules = {"priorityClassName": "urgent", **apart("noisy")}
    await cluster.submit(*gang("high", 2, gpus=4, spec=rules))

    assert set((await cluster.seated("high", 2)).values()) == set(fleet[1:])
    assert set((await cluster.bound("low0")).values()) == {fleet[0]}
