"""`gangwright nodes`: room, its shapes, and where it is."""

import pytest

from scheduler.cli.nodes_command import amount


async def test_the_map_of_racks(cluster):
    """A line a rack, a sign a node: free, partly used, full, cordoned."""
    cluster.gang("full", 1, gpus=8, node="r0-n0")
    cluster.gang("part", 1, gpus=4, node="r0-n1")
    cluster.node("r1-n1", rack="r1", cordoned=True)

    lines = (await cluster.say_offline("nodes")).out.splitlines()

    racks = {words[0]: words[1:] for words in map(str.split, lines) if words and words[0] in {"r0", "r1"}}
    assert racks == {"r0": ["2", "4", "█▄"], "r1": ["2", "8", "·x"]}


async def test_free_shapes(cluster):
    """Nodes with equal room left are one shape; cordoned nodes are none."""
    cluster.gang("part", 1, gpus=4, node="r0-n1")
    cluster.node("r1-n1", rack="r1", cordoned=True)

    shapes = (await cluster.say_offline("nodes", "-o", "json")).json["shapes"]

    assert [(own["nodes"], own["free"]["nvidia.com/gpu"]) for own in shapes] == [(2, 8), (1, 4)]


async def test_every_node(cluster):
    """`-o wide` names every node, who is on it, and what is free of all it has."""
    cluster.gang("part", 1, gpus=4, node="r0-n1")

    out = (await cluster.say_offline("nodes", "-o", "wide")).out

    (line,) = [own for own in out.splitlines() if own.startswith("r0-n1")]
    assert line.split()[1:] == ["r0", "yes", "4/8", "31/32", "128Gi/128Gi", "team/part"]


async def test_no_nodes(cluster):
    """An empty cluster is said to be empty."""
    for name in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        cluster.delete(name, "/api/v1/nodes", "")

    said = await cluster.say_offline("nodes")

    assert (said.code, said.out) == (0, "")
    assert "no nodes" in said.err


@pytest.mark.parametrize(
    ("resource", "value", "said"),
    [
        ("cpu", 1500, "1.5"),
        ("memory", 2**36, "64Gi"),
        ("hugepages-2Mi", 2**29, "0.5Gi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_have_their_units(resource, value, said):
    """Cores, GiB of whatever is counted in bytes, and pieces."""
    assert amount(resource, value) == said
