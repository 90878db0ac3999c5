"""What a namespace may use at most, what it gets back from those who borrowed it, and whose turn it is by share."""

import pytest

from bench.plane import Fleet
from bench.plane.installation import Installation
from bench.plane.proxy import Proxy
from tests.stories.conftest import Tune
from tests.stories.support.cluster import Cluster, bound
from tests.stories.support.workloads import gang, made_by
from tests.stories.test_preemption import evicted

EIGHT = Fleet(racks=1, nodes_per_rack=2, gpus=4)
GPU = "nvidia.com/gpu"

pytestmark = pytest.mark.usefixtures("priorities")


@pytest.fixture
def gangwright(frail: Installation) -> Installation:
    return frail


@pytest.fixture
def lodger(cluster: Cluster, neighbour: str) -> Cluster:
    """The same cluster, seen by another namespace."""
    return Cluster(cluster.api, neighbour, cluster.nodes, cluster.gangwright, cluster.accountant)


async def test_a_ceiling(cluster: Cluster, lodger: Cluster, tune: Tune):
    """A namespace at its ceiling waits, with the figures in the event, while room is free and others take it."""
    await tune({"queue.shares": {cluster.namespace: {"ceiling": {GPU: 4}}}})
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("first", 4))
    await cluster.running("first", 4)
    await cluster.submit(*gang("second", 2))

    message = await cluster.told("second", "QuotaExceeded")
    assert f"needs 2 of {GPU}; 4 of the ceiling of 4 are in use" in message
    await lodger.submit(*gang("other", 4))
    await lodger.running("other", 4)
    assert await cluster.bound("second") == {}

    await cluster.complete("first")
    await cluster.running("second", 2)


async def lent(cluster: Cluster, lodger: Cluster) -> None:
    """The other namespace uses all eight GPUs, four of which are guaranteed to ours, with a priority above ours."""
    await cluster.nodes(EIGHT)
    for name in ("borrows", "also"):
        await lodger.submit(made_by("ReplicaSet", name, 4, spec={"priorityClassName": "urgent"}))
        await lodger.running(name, 4)


def shares(cluster: Cluster, lodger: Cluster) -> dict[str, object]:
    return {name: {"guaranteed": {GPU: 4}} for name in (cluster.namespace, lodger.namespace)}


async def test_lent_room_is_taken_back(cluster: Cluster, lodger: Cluster, door: Proxy, tune: Tune):
    """One of the borrower's two gangs leaves whole for the lender's, whatever their priority; the borrower keeps its
    own share.
    """
    await tune({"queue.shares": shares(cluster, lodger)})
    await lent(cluster, lodger)
    await cluster.submit(*gang("owner", 4))

    await cluster.running("owner", 4)
    assert len(evicted(door)) == 4
    stays = [name for name in ("borrows", "also") if len(bound(await lodger.members(name))) == 4]
    assert len(stays) == 1
    await cluster.submit(*gang("more", 4))
    await cluster.told("more", "InsufficientResources")
    await cluster.gone_by()
    assert len(evicted(door)) == 4


async def test_lent_room_is_taken_back_from_lower_priority_alone(
    cluster: Cluster, lodger: Cluster, door: Proxy, tune: Tune
):
    """With `reclaim: lower-priority` a borrower of higher priority keeps what it borrowed until it ends."""
    await tune({"queue.shares": shares(cluster, lodger), "queue.reclaim": "lower-priority"})
    await lent(cluster, lodger)
    await cluster.submit(*gang("owner", 4))

    await cluster.told("owner", "InsufficientResources")
    await cluster.gone_by()
    assert evicted(door) == []


async def test_fair_turns(cluster: Cluster, lodger: Cluster, tune: Tune):
    """Under `fair` the namespace that uses less of its share goes first, though its gang came later."""
    await tune({"queue.order": "fair", "queue.backfill": "none"})
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("stays", 4), *gang("ends", 4))
    await cluster.running("stays", 4)
    await cluster.running("ends", 4)
    await cluster.submit(*gang("older", 4))
    await cluster.told("older", "InsufficientResources")
    await lodger.submit(*gang("younger", 4))
    await lodger.told("younger", "InsufficientResources")

    await cluster.complete("ends")
    await lodger.running("younger", 4)
    assert await cluster.bound("older") == {}


async def test_shares_are_read_again(cluster: Cluster, tune: Tune):
    """A ceiling that is raised in the settings file lets the gang that waits for it start, without a restart."""
    low, high = ({cluster.namespace: {"ceiling": {GPU: most}}} for most in (1, 4))
    change = await tune({"queue.shares": low})
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("waits", 4))
    await cluster.told("waits", "QuotaExceeded")
    before = cluster.gangwright.extender.pid
    change({"queue.shares": high})

    await cluster.running("waits", 4)
    assert cluster.gangwright.extender.pid == before
