"""The table of the queues on virtual clusters of the Philly trace."""

import pytest

from bench.queue import cases
from bench.tables import philly
from bench.tables.records import checked
from bench.tables.table import Profile

ENOUGH = 60
"""Jobs of the smallest cluster with large gangs among them."""


@pytest.fixture(scope="module")
def table():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(philly, "PARTS", {Profile.QUICK: {"2869ce": ENOUGH}})
        return checked(philly.make(Profile.QUICK, 1))


def test_table_has_a_row_for_each_queue(table):
    """Every queue is measured on the cluster, named as in the picture, and no time is negative."""
    assert [row[1] for row in table.rows] == [philly.LABELS[queue.name] for queue in cases.QUEUES]
    assert {row[0] for row in table.rows} == {f"2869ce, first {ENOUGH}"}
    assert all(value >= -1e-9 for row in table.rows for value in row[2:])
    assert len(table.charts[0].series[0].x) == len(cases.QUEUES)


def test_figures_are_the_waits_of_the_rows(table):
    """The wait of a row is the figure of its queue, and the claims' ratios are figures too."""
    waits = [table.figures[f"2869ce_{queue.name}_wait_h"] for queue in cases.QUEUES]

    assert waits == [row[3] for row in table.rows]
    assert table.figures["fifo_over_strict_completion"] == pytest.approx(table.rows[2][2] / table.rows[0][2])


def test_part_of_a_cluster_misses_no_bar(table):
    """Bars are of whole clusters: the notes of a part name none."""
    assert not [note for note in table.notes if note.startswith("Missed")]


def test_full_profile_has_every_cluster():
    """The full table takes all jobs of all clusters."""
    assert philly.PARTS[Profile.FULL] == {cluster.name: None for cluster in cases.CLUSTERS}
    assert set(philly.LABELS) == set(philly.SHORT) == {queue.name for queue in cases.QUEUES}
