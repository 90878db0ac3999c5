"""The columns of labels: made when they are read, and the same as all of them made at once."""

import pytest

from scheduler.model import cluster
from scheduler.model.cluster import LabelColumns
from tests.support.builders import RACK, a_node

NODES = [
    a_node("a", rack="r1", labels={"disk": "ssd"}),
    a_node("b", rack="r0"),
    a_node("c", rack="r1", labels={"disk": "hdd"}),
]


def test_each_column_is_made_when_it_is_first_read():
    """Its values are numbered in the order of the nodes, and the next reader gets the same object."""
    columns = LabelColumns(NODES)
    assert columns.made == {}

    racks = columns[RACK]

    assert (racks.codes.tolist(), dict(racks.values)) == ([0, 1, 0], {"r1": 0, "r0": 1})
    assert columns.get(RACK) is racks
    assert list(columns.made) == [RACK]
    assert sorted(columns) == sorted({key for node in NODES for key in node.labels})
    for key, column in columns.items():
        names = [*column.values, None]  # the code -1 reads the last
        assert [names[code] for code in column.codes.tolist()] == [node.labels.get(key) for node in NODES]


def test_a_label_that_no_node_has_is_absent():
    """It is looked for once, and it stays absent in columns made of these."""
    columns = LabelColumns(NODES)
    assert "gpu" not in columns
    assert columns.get("gpu") is None
    with pytest.raises(KeyError):
        LabelColumns(NODES, columns.made)["gpu"]


def test_columns_kept_are_bounded(monkeypatch):
    """Pods may ask about any number of labels. Columns that were dropped are made again."""
    monkeypatch.setattr(cluster, "LABELS_KEPT", 2)
    columns = LabelColumns(NODES)
    for key in ("one", "two", "three", RACK, "disk", "four"):
        columns.get(key)

    assert len(columns.made) <= 2
    assert columns["disk"].codes.tolist() == [0, -1, 1]
