"""A gang that has run for its max-runtime is ended for good: its Job is suspended, or its pods are evicted."""

from bench.plane import Fleet
from tests.stories.support.cluster import Cluster, bound
from tests.stories.support.workloads import made_by

MAX_RUNTIME, STAYS = "gangwright.io/max-runtime", "gangwright.io/stay-suspended"


async def test_gangs_are_ended_for_good(cluster: Cluster):
    """Both are warned. The Job stays suspended; the pods that a ReplicaSet makes next wait until they ask for more time."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=4))
    await cluster.submit(
        *(made_by(kind, kind.lower(), 2, max_runtime="5s") for kind in ("Job", "ReplicaSet"))
    )
    first = set(await cluster.running("replicaset", 2))
    assert "save the work" in await cluster.event("job", "RuntimeExpiring")

    job = await cluster.thing("jobs", "job", lambda own: own["spec"].get("suspend"))
    assert job["metadata"]["annotations"][STAYS] == "RuntimeExceeded"
    await cluster.until("job", lambda pods: not pods)
    assert f"{MAX_RUNTIME}: '5s'" in await cluster.told("replicaset", "RuntimeExceeded")
    await cluster.until("replicaset", lambda pods: len(pods) == 2 and not bound(pods))
    await cluster.gone_by()
    assert (await cluster.bound("replicaset"), await cluster.members("job")) == ({}, [])

    for member in await cluster.members("replicaset"):
        said = {"metadata": {"annotations": {MAX_RUNTIME: "1h"}}}
        await cluster.api.patch(cluster.at(member), said)
    assert first.isdisjoint(await cluster.running("replicaset", 2))
