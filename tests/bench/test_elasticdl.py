"""ElasticDL's experiments in simulation, and the table that has them beside the published ones."""

from pathlib import Path

import pytest

from bench.elastic.experiments import published
from bench.tables import elasticdl
from bench.tables.records import checked
from bench.tables.table import Profile
from bench.timelines import MEASURED, Costs, beside_serving, elastic, gangs

README = Path(elasticdl.__file__).parents[1] / "README.md"


def test_gangs_run_one_after_the_other():
    """Two gangs of four do not fit six slots: the second begins when the first one ends."""
    found = gangs(Costs(5.0, 0.5))

    assert found.end == pytest.approx(2 * 455.5)
    assert found.second_trains == pytest.approx(2 * 5.5 + 450 - 120)
    assert max(found.line.values()) == 4
    assert found.use == pytest.approx(3600 / (6 * found.end))


def test_elastic_jobs_do_the_same_work_sooner():
    """Both jobs run side by side on all six slots, and do not do less work."""
    gang, own = gangs(MEASURED), elastic(MEASURED)

    assert own.end < gang.end
    assert max(own.line.values()) == 6
    assert own.use * 6 * own.end >= 3600
    assert own.second_trains == pytest.approx(MEASURED.start + MEASURED.resize, abs=0.1)


def test_training_shrinks_for_serving_and_grows_back():
    """A dip lasts as long as a serving pod's start, and regrowth at least as long as a worker's. Chance has no part."""
    orders = [(10.0, 4), (40.0, -4)]
    one, again = (beside_serving(MEASURED, orders, 80.0, serves=2.0) for _ in range(2))

    assert one == again
    assert one.fewest == 2
    assert 2.0 <= one.dip < 3.0
    assert MEASURED.start <= one.regrowth < 2 * MEASURED.start
    assert set(one.line.values()) == {4, 8}


def test_table_has_published_figures_beside_simulated_ones(monkeypatch):
    """The published figures are those of the raw timelines, and the table is one that the report shows."""
    monkeypatch.setitem(elasticdl.LATER, Profile.QUICK, (120,))
    table = checked(elasticdl.make(Profile.QUICK, 1))
    cells = {(row[0], row[1]): row[2] for row in table.rows}

    assert cells[elasticdl.ONE, "both end, gangs"] == "968 s"
    assert cells[elasticdl.ONE, "time saved"] == "16.4%"
    assert cells[elasticdl.ONE, "second job trains after"] == "23.0 s"
    assert cells[elasticdl.BESIDE, "GPUs in use"] == "96.5%"
    assert cells[elasticdl.BESIDE, "longest dip"] == "7.0 s"
    assert table.figures["slow_saved_percent"] == pytest.approx(table.figures["least_saved_percent"])


def test_real_runs_are_those_of_the_readme():
    """What the table quotes of real runs is what the README says of them."""
    text = README.read_text(encoding="utf-8")

    for quoted in elasticdl.REAL.values():
        assert quoted.replace(" (", " points (") in text, quoted
    assert len(published.accuracies()) == 6
