"""Counters exist at 0 from the start, of both programs: a count that is born above it has no growth."""

import pytest
from prometheus_client import Counter

from scheduler.elastic.controller import elastic_master
from scheduler.service import gauges
from scheduler.telemetry import elastic_metrics, metrics
from tests.telemetry.rows import COUNTER, PREFIX, Row, rows

OPEN = {
    "status_requests_total": "HTTP statuses",
    "elastic_requests_total": "HTTP statuses",
    "elastic_told_total": "the reasons of events, each written where it is told",
    "elastic_watch_restarts_total": "a watch for each namespace",
}
"""Counters with a label of which there is no closed list, and why."""

MOST = 300
"""Series of one counter: more would make every scrape long for what never happens."""


def shown(registry, name: str) -> list[tuple[dict[str, str], float]]:
    """The series of a counter in a scrape, by labels."""
    found = [own for family in registry.collect() for own in family.samples if own.name == name]
    return [(own.labels, own.value) for own in found]


def counters() -> list[tuple[str, object, Row]]:
    serve, master = metrics.Metrics(), elastic_metrics.ElasticMetrics()
    gauges.begin_all(serve)
    elastic_master.begin_all(master)
    return [
        pytest.param(own.registry, row, id=row.name)
        for own in (serve, master)
        for row in rows(own)
        if row.kind == COUNTER
    ]


@pytest.mark.parametrize(("registry", "row"), counters())
def test_every_counter_with_closed_labels_is_at_zero_at_the_start(registry, row: Row) -> None:
    """Each combination of its words, so that the first of anything is a growth by one."""
    series = shown(registry, PREFIX + row.name)

    assert bool(series) is (row.name not in OPEN)
    assert all(value == 0 for _, value in series)
    assert all(set(labels) == set(row.labels) for labels, _ in series)
    assert len(series) <= MOST


def test_what_alerts_and_panels_ask_for_is_there() -> None:
    """The kinds of victims, and a write that is forbidden, of either program."""
    serve, master = metrics.Metrics(), elastic_metrics.ElasticMetrics()
    gauges.begin_all(serve)
    elastic_master.begin_all(master)

    def value(own, name: str, **labels: str) -> float | None:
        return own.registry.get_sample_value(PREFIX + name, labels)

    assert [value(serve, "victims_total", kind=kind) for kind in ("surplus", "pod", "gang")] == [0, 0, 0]
    assert value(serve, "effects_total", effect="Evict", result="forbidden") == 0
    assert value(serve, "victims_refused_total", kind="disruption-budget") == 0
    assert value(serve, "pins_broken_total", cause="node-gone") == 0
    assert value(serve, "decisions_total", reason="InsufficientResources") == 0
    assert value(master, "elastic_writes_total", what="start", result="forbidden") == 0


def test_a_counter_that_is_begun_keeps_its_count() -> None:
    """What was counted already stays."""
    counter = Counter("some_total", "Some.", ("a", "b"), registry=None)
    counter.labels("x", "y").inc(3)

    metrics.begin(counter, ["x", "z"], ["y"])

    samples = [own for family in counter.collect() for own in family.samples if own.name == "some_total"]
    assert {(own.labels["a"], own.value) for own in samples} == {("x", 3.0), ("z", 0.0)}
