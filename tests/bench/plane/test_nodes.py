"""Fake nodes from a few words."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.plane import nodes
from bench.plane.errors import DescriptionError
from bench.plane.nodes import AREA_LABEL, GPU, HOST_LABEL, RACK_LABEL, Fleet


def labels(fleet: Fleet, label: str) -> list[str]:
    return [node["metadata"]["labels"][label] for node in fleet.objects()]


def test_every_node_has_its_places() -> None:
    """Each node says its host, rack and area; a rack lies in one area, and areas share the racks."""
    fleet = Fleet(racks=4, nodes_per_rack=3, areas=2)

    assert labels(fleet, HOST_LABEL) == fleet.names()
    assert set(Counter(labels(fleet, RACK_LABEL)).values()) == {3}
    assert len(set(zip(labels(fleet, RACK_LABEL), labels(fleet, AREA_LABEL), strict=True))) == 4
    assert Counter(labels(fleet, AREA_LABEL)) == {"a0": 6, "a1": 6}


def test_node_is_ready_and_has_room() -> None:
    """A node is Ready from its first moment, and its capacity can be used up entirely."""
    status = Fleet(gpus=4, cpu="32", resources={"rdma/hca": "2"}).objects()[0]["status"]

    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "True"
    assert status["capacity"] == status["allocatable"]
    assert status["capacity"] == {"cpu": "32", "memory": "512Gi", "pods": "110", GPU: "4", "rdma/hca": "2"}


def test_node_without_gpus_has_no_such_resource() -> None:
    """No GPU is the absence of the resource, as on a real node, not a zero."""
    assert GPU not in Fleet(gpus=0).objects()[0]["status"]["capacity"]


def test_names_of_fleets_can_be_told_apart() -> None:
    """With a prefix, fleets share neither nodes nor racks."""
    one, other = Fleet(racks=2, prefix="big-"), Fleet(racks=2)

    assert not set(one.names()) & set(other.names())
    assert not set(labels(one, RACK_LABEL)) & set(labels(other, RACK_LABEL))


def test_file_describes_one_fleet_or_several(tmp_path: Path) -> None:
    """A file holds one description or a list; quantities may be written as numbers."""
    place = tmp_path / "nodes.yaml"
    place.write_text("- racks: {count: 2, nodes: 5}\n  cpu: 16\n- {prefix: cpu-, gpus: 0}\n")

    first, second = nodes.read(place)

    assert (first.racks, first.nodes_per_rack, first.cpu) == (2, 5, "16")
    assert (second.prefix, second.gpus) == ("cpu-", 0)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({"rack": 4}, "rack unknown; known are .*racks"),
        ({"racks": {"cuont": 4}}, r"racks\.cuont unknown"),
        ({"racks": 0}, "racks: 0 must be 1 or more"),
        ({"gpus": -1}, "gpus: -1 must be 0 or more"),
        ({"racks": 2, "areas": 3}, "areas: 3 must not exceed racks: 2"),
        ({"racks": "four"}, "racks: 'four' must be a whole number"),
        ("four racks", "must be a mapping"),
    ],
)
def test_nonsense_is_refused(described: Any, said: str) -> None:
    """What cannot be meant is refused with the field and what would be right."""
    with pytest.raises(DescriptionError, match=said):
        nodes.fleet(described)
