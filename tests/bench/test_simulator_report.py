"""From fates to figures: what is a wait, what is a percentile, and what is use."""

import json

import pytest

from bench.report import Fate, Report, Spread, size_class
from bench.traces import Job


def a_fate(gpus=1, arrival=0.0, started=0.0, ended=3600.0, runtime=3600.0, members=1, **rest) -> Fate:
    return Fate(Job("j", arrival, runtime, members, gpus), started, ended, **rest)


def test_percentiles_are_figures_that_occurred():
    """Of 200 figures 198 do not exceed p99; of fewer than a hundred it is the largest; of none all is zero."""
    spread = Spread.of(range(200, 0, -1))

    assert (spread.count, spread.p50, spread.p90, spread.p99, spread.max) == (200, 100, 180, 198, 200)
    assert spread.mean == 100.5
    assert Spread.of(range(99)).p99 == 98
    assert Spread.of([]) == Spread(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_wait_is_all_that_was_not_the_run():
    """Whoever was interrupted waited twice: before the first start, and until it went on."""
    fate = a_fate(arrival=100.0, started=160.0, ended=4000.0)

    assert (fate.first_start, fate.completion, fate.wait) == (60.0, 3900.0, 300.0)


@pytest.mark.parametrize(
    ("members", "gpus", "name"), [(1, 1, "1"), (1, 2, "2-7"), (1, 7, "2-7"), (1, 8, "8-15"), (2, 8, "16+")]
)
def test_every_size_has_its_class(members, gpus, name):
    """Classes are by all GPUs of a gang."""
    assert size_class(Job("j", 0, 1, members, gpus)) == name


def test_report_adds_up():
    """Two jobs of an hour, one after the other on half of two GPUs: half of the cluster was used for two hours."""
    report = Report.of(
        [a_fate(), a_fate(started=3600.0, ended=7200.0, suspensions=2, evictions=1, lost=1800.0)], 2
    )

    assert (report.makespan, report.utilisation) == (2.0, 0.5)
    assert (report.suspensions, report.preemptions, report.lost) == (2, 1, 0.5)
    assert report.all.wait.mean == 0.5
    assert list(report.sizes) == ["1"]
    assert json.loads(json.dumps(report.as_json()))["sizes"]["1"]["completion"]["max"] == 2.0


def test_report_of_nobody_is_all_zeros():
    """A trace without jobs is no fault."""
    report = Report.of([], 8)

    assert (report.makespan, report.utilisation, report.sizes) == (0.0, 0.0, {})
