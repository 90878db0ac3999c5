"""Who goes first, and who may start past a gang that waits."""

import pytest

from tests.plane import Fleet, Plane
from tests.plane.client import Object
from tests.plane.installation import Installation
from tests.stories.cluster import Cluster
from tests.stories.conftest import Tune
from tests.stories.workloads import gang

EIGHT = Fleet(racks=1, nodes_per_rack=2, gpus=4)


@pytest.fixture(scope="session")
def plane(frail_plane: Plane) -> Plane:
    return frail_plane


@pytest.fixture(scope="session")
def gangwright(frail: Installation) -> Installation:
    return frail


async def head_waits(cluster: Cluster) -> None:
    """Half of eight GPUs are in use for ten minutes, and the first gang of the queue waits for all of them."""
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("runs", 4, expected_runtime="10m"))
    await cluster.running("runs", 4)
    await cluster.submit(*gang("head", 8, expected_runtime="1h"))
    await cluster.told("head", "NoRoom")


def small(name: str, runtime: str) -> list[Object]:
    return gang(name, 2, expected_runtime=runtime)


async def test_short_gangs_pass_and_long_ones_do_not(cluster: Cluster):
    """The room of the first gang is reserved in time: who ends before passes it, who would delay it waits behind it, told so."""
    await head_waits(cluster)
    await cluster.submit(*small("long", "5h"))
    await cluster.told("long", "Reserved")
    await cluster.submit(*small("short", "1m"))

    await cluster.running("short", 2)
    assert await cluster.bound("long") == {}

    await cluster.complete("short")
    await cluster.complete("runs")
    await cluster.running("head", 8)
    assert await cluster.bound("long") == {}
    await cluster.complete("head")
    await cluster.running("long", 2)


async def test_without_a_reservation(cluster: Cluster, tune: Tune):
    """With `backfill: free` whoever finds room starts, however long it will run."""
    await tune({"queue.backfill": "free"})
    await head_waits(cluster)
    await cluster.submit(*small("long", "5h"))

    await cluster.running("long", 2)
    assert await cluster.bound("head") == {}


async def test_strict_order(cluster: Cluster, tune: Tune):
    """With `backfill: none` nobody starts before the first gang, however short it would run; then the others follow."""
    await tune({"queue.backfill": "none"})
    await head_waits(cluster)
    await cluster.submit(*small("short", "1m"))
    await cluster.told("short", "Queued")
    assert await cluster.bound("short") == {}

    await cluster.complete("runs")
    await cluster.running("head", 8)
    await cluster.complete("head")
    await cluster.running("short", 2)


@pytest.mark.parametrize(
    ("settings", "first"), [({}, "older"), ({"queue.order": "shortest"}, "shorter")], ids=["fifo", "shortest"]
)
async def test_orders(cluster: Cluster, tune: Tune, settings: dict[str, object], first: str):
    """Of two gangs that wait for the whole cluster, the older goes first under `fifo` and the shorter under `shortest`."""
    await tune(settings)
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("runs", 8))
    await cluster.running("runs", 8)
    await cluster.submit(*gang("older", 8, expected_runtime="5h"))
    await cluster.told("older", "NoRoom")
    await cluster.submit(*gang("shorter", 8, expected_runtime="1m"))
    await cluster.told("shorter", "NoRoom")
    await cluster.complete("runs")

    (second,) = {"older", "shorter"} - {first}
    await cluster.running(first, 8)
    assert await cluster.bound(second) == {}
    await cluster.complete(first)
    await cluster.running(second, 8)


async def test_a_duration_that_does_not_parse(cluster: Cluster):
    """A runtime that is none is refused by name, with how one is written; the gang does not start."""
    await cluster.nodes(EIGHT)
    await cluster.submit(*gang("sometime", 2, expected_runtime="soon"))

    message = await cluster.told("sometime", "Invalid")
    assert "gangwright.io/expected-runtime: 'soon'" in message
    assert "90s, 5m or 1h30m" in message
    assert await cluster.bound("sometime") == {}
