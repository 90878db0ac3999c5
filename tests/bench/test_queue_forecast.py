"""Forecasts held against what came true: what counts as covered, how far off is how far, and what is missed."""

import json

import pytest

from bench.queue import foretold, plots
from bench.queue.cases import Cluster
from bench.queue.foretold import Foresight, Foretold
from bench.traces import Job
from scheduler.engine.explanation import LONGEST
from scheduler.model.queueing import Estimate


def a_forecast(wait=1000.0, low=0.0, middle=1000.0, high=2000.0, arrival=500.0) -> Foretold:
    """A gang that waited so long, and the waits that were foretold to it. Seconds."""
    said = Estimate(arrival + middle, arrival + low, arrival + high)
    return Foretold(Job("j", arrival, 60.0, 1, 1), said, arrival + wait)


UNSAID = Foretold(Job("u", 0.0, 60.0, 1, 1), None, 900.0)


@pytest.mark.parametrize(("wait", "covered"), [(99.0, False), (100.0, True), (300.0, True), (301.0, False)])
def test_covered_is_within_both_bounds(wait, covered):
    """A start on a bound is covered, one beyond it is not."""
    assert a_forecast(wait, low=100.0, middle=200.0, high=300.0).covered is covered


def test_error_is_a_part_of_the_wait():
    """Twice too late and never said are as bad as it gets for half of the gangs: all of the wait."""
    assert a_forecast(1000.0, middle=1300.0).error == pytest.approx(0.3)
    assert a_forecast(1000.0, middle=2000.0).error == 1.0
    assert (UNSAID.error, UNSAID.covered) == (1.0, False)


def test_figures_count_every_gang_that_waited():
    """Whom nothing was said to counts as not covered, and bounds are missed on one side or the other."""
    early, late = a_forecast(50.0, low=100.0), a_forecast(3000.0)
    found = foretold.figures([a_forecast(), early, late, UNSAID])

    assert found == {
        "gangs": 4,
        "coverage": 0.25,
        "earlier": 0.25,
        "later": 0.25,
        "unsaid": 1,
        "median_error": pytest.approx((1.0 + 2 / 3) / 2, abs=1e-3),
    }


def test_summary_names_what_is_missed():
    """Bounds that cover everything are as wrong as bounds that cover too little; nobody asked, nothing missed."""
    wide = Foresight("a", (a_forecast(),) * 10, 10, 0.0)
    right = Foresight("b", (a_forecast(),) * 8 + (a_forecast(5000.0),) * 2, 10, 0.0)
    last = foretold.summary([wide, right, Foresight("c", (), 0, 0.0)])

    assert last["coverage"] == {"a": 1.0, "b": 0.8, "all": 0.9}
    assert last["missed"] == ["coverage_a"]
    assert json.loads(json.dumps(last)) == last


@pytest.mark.extended
def test_nobody_is_too_far_back_to_be_foretold(monkeypatch):
    """A burst of gangs that lasts longer than the service looks ahead: every one that waits is told a start."""
    burst = [Job(f"j{n}", 0.0, 700.0, 1, 8) for n in range(LONGEST + 50)]
    monkeypatch.setattr(Cluster, "jobs", lambda _self: burst)
    found = foretold.run(Cluster("burst", 10))

    assert found.asked == len(burst) - 10
    assert max(one.place for one in found.found) >= LONGEST
    assert all(one.said is not None for one in found.found)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("own", "said", "asked"), [(0.0, None, 0), (1.0, None, 30), (1.0, 0.0, 0), (0.0, 1.0, 30)]
)
def test_a_cluster_says_how_many_are_asked(monkeypatch, own, said, asked):
    """Its own share of those who wait, unless another is said, which may be none."""
    monkeypatch.setattr(Cluster, "jobs", lambda _self: [Job(f"j{n}", 0.0, 700.0, 1, 8) for n in range(40)])

    assert foretold.run(Cluster("burst", 10, asked=own), share=said).asked == asked


@pytest.mark.extended
def test_picture_is_drawn(tmp_path):
    """A panel a cluster, also where nobody waited."""
    runs = [Foresight("a", (a_forecast(), a_forecast(9000.0), UNSAID), 3, 0.0), Foresight("b", (), 0, 0.0)]

    assert plots.draw_forecasts(runs, tmp_path).read_bytes().startswith(b"\x89PNG")
