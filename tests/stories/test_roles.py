"""Members that differ: parameter servers beside workers, members above the quorum, and members of a later run."""

from bench.plane import Fleet
from tests.stories.support.cluster import Cluster
from tests.stories.support.workloads import GANG, made_by, pod

ROLES = "ps=1,worker=4"


def server(number: int = 0):
    return pod(f"ps-{number}", gang="training", role="ps", min_members=ROLES, gpus=0, cpu="6")


def worker(number: int, **words):
    return pod(f"worker-{number}", gang="training", role="worker", min_members=ROLES, gpus=2, **words)


async def test_every_role_must_be_complete(cluster: Cluster):
    """Four workers wait for their parameter server, told so; when it comes all five start, each where its demand
    fits.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4, cpu="8"))
    await cluster.submit(*(worker(number) for number in range(4)))

    assert "4 of 5 exist" in await cluster.told("training", "MissingMembers")
    assert await cluster.bound("training") == {}

    await cluster.submit(server())
    places = await cluster.seated("training", 5)
    assert sorted(places) == ["ps-0", "worker-0", "worker-1", "worker-2", "worker-3"]


async def test_a_role_that_fits_nowhere_keeps_all_back(cluster: Cluster):
    """Where the workers fit and the parameter server does not, nobody starts, and the missing role is told."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=2, gpus=4, cpu="4"))
    await cluster.submit(server(), *(worker(number) for number in range(4)))

    assert "needs 1 × 6 cpu" in await cluster.told("training", "ExceedsCluster")
    assert await cluster.bound("training") == {}


async def test_workers_are_no_parameter_servers(cluster: Cluster):
    """A fifth worker does not make up for the parameter server that is missing."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=4, gpus=4, cpu="8"))
    await cluster.submit(*(worker(number) for number in range(5)))

    await cluster.told("training", "MissingMembers")
    await cluster.gone_by()
    assert await cluster.bound("training") == {}


async def test_surplus_is_seated_one_by_one(cluster: Cluster):
    """Two of six members make a quorum: they start; of the others as many start as find room, and the rest as room
    comes.
    """
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=4))
    core = [pod(f"core-{n}", gang="elastic", min_members=2) for n in range(2)]
    more = [pod(f"more-{n}", gang="elastic", min_members=2, surplus=True) for n in range(4)]
    await cluster.submit(*core, *more)

    places = await cluster.seated("elastic", 4)
    assert {"core-0", "core-1"} <= set(places)
    await cluster.gone_by()
    assert len(await cluster.bound("elastic")) == 4

    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=1, prefix="new-"))
    assert len(await cluster.seated("elastic", 5)) == 5
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=1, prefix="newer-"))
    await cluster.seated("elastic", 6)


async def test_surplus_alone_is_no_gang(cluster: Cluster):
    """Members above the quorum never make up for it: while the core is not there, none of them starts."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=8))
    await cluster.submit(
        *(pod(f"more-{n}", gang="elastic", min_members=2, surplus=True) for n in range(3)),
        pod("core-0", gang="elastic", min_members=2),
    )

    await cluster.told("elastic", "MissingMembers")
    assert await cluster.bound("elastic") == {}

    await cluster.submit(pod("core-1", gang="elastic", min_members=2))
    await cluster.seated("elastic", 5)


async def test_members_above_the_minimum_wait_for_nobody(cluster: Cluster):
    """A gang of five that needs three starts with three when no more fit."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=1, gpus=3))
    await cluster.submit(*(pod(f"w-{n}", gang="five", min_members=3, members=5) for n in range(5)))

    assert len(await cluster.seated("five", 3)) == 3


async def test_a_second_run_of_one_gang_name_waits_for_the_first(cluster: Cluster):
    """A CronJob's next Job, made while the first runs, is told which goes first; then it is seated whole."""
    await cluster.nodes(Fleet(racks=1, nodes_per_rack=3, gpus=8))
    for name in ("run-1", "run-2"):
        job = made_by("Job", name, 2, gpus=8)
        job["spec"]["template"]["metadata"]["labels"][GANG] = "nightly"
        await cluster.submit(job)
        if name == "run-1":
            await cluster.running("nightly", 2)

    assert "Job run-1;" in await cluster.told("nightly", "NameConflict")
    assert {name.rsplit("-", 1)[0] for name in await cluster.bound("nightly")} == {"run-1"}

    for member in await cluster.members("nightly"):
        if member["metadata"]["name"].startswith("run-1"):
            ends = {"metadata": {"annotations": {"plane.gangwright.io/runs-for": "0s"}}}
            await cluster.api.patch(cluster.at(member), ends)
    await cluster.until(
        "nightly",
        lambda pods: (
            sum("nodeName" in own["spec"] and own["metadata"]["name"].startswith("run-2") for own in pods)
            == 2
        ),
    )
