"""Every metric: named well, labelled shortly, present."""

import re

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.telemetry import metrics as m
from scheduler.telemetry.metrics import Few, Metrics
from tests.telemetry.rows import COUNTER, HISTOGRAM, METRICS, PREFIX, markdown

NEVER = {"gang", "job", "pod", "node", "namespace", "uid", "user", "queue"}
UNITS = ("_seconds", "_bytes", "_total", "_ratio", "_info")
SHARES = {"share_used", "share_guaranteed", "share_borrowed", "share_ceiling", "share_waiting"}
"""Amounts by namespace, of those that the settings name: in the unit of each resource."""
COUNTS = {"connections", "gangs", "holds", "cache_objects", "alignment", "acting"} | SHARES


def families(metrics):
    text = generate_latest(metrics.registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_every_row_is_an_attribute_and_is_scraped():
    """The class, its registry and a scrape hold the same names; what runs is told by labels alone."""
    metrics = Metrics()
    shown = families(metrics)

    for row in METRICS:
        assert hasattr(metrics, row.name) or row.name == "build_info"
        assert (PREFIX + row.name).removesuffix("_total") in shown


@pytest.mark.parametrize("row", METRICS, ids=[row.name for row in METRICS])
def test_names_follow_the_conventions(row):
    """Lower case, base units at the end, `_total` for counters alone, help that ends as a sentence."""
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", row.name)
    assert row.name.endswith(UNITS) or row.name in COUNTS
    assert row.name.endswith("_total") is (row.kind == COUNTER)
    assert row.help.endswith(".")
    assert not re.search(r"milli|micro|percent", row.name)


@pytest.mark.parametrize("row", METRICS, ids=[row.name for row in METRICS])
def test_no_label_grows_with_what_users_make(row):
    """Labels are few, and none names a gang, a pod, a node or a user."""
    assert NEVER.isdisjoint(set(row.labels) - {"namespace"} if row.name in SHARES else row.labels)
    assert len(row.labels) <= 2


def test_only_histograms_have_buckets():
    """Buckets rise, and reach as far as what they measure."""
    for row in METRICS:
        assert bool(row.buckets) is (row.kind == HISTOGRAM)
        assert list(row.buckets) == sorted(set(row.buckets))
    assert m.WAITS[0] == 0.01
    assert m.WAITS[-1] >= 10 * 3600
    assert m.SHORT[0] == 0.0001
    assert m.SHORT[-1] >= 5
    assert (m.UNIT[0], m.UNIT[-1], len(m.UNIT)) == (0.05, 1.0, 20)


def test_names_beyond_the_first_few_are_other():
    """The first keep their word, also later."""
    few = Few(["cpu"], limit=3)

    assert [few(name) for name in ["a", "b", "c", "a", "cpu", "d"]] == [
        "a",
        "b",
        "other",
        "a",
        "cpu",
        "other",
    ]


def test_resources_never_make_more_series_than_agreed():
    """Ten thousand kinds of devices are a handful of series, and the worst of the rest stands for them."""
    metrics = Metrics()
    ratios = {"cpu": 0.5} | {f"example.com/device-{number}": number / 10_000 for number in range(10_000)}

    metrics.set_ratio(metrics.resource_use_ratio, ratios)

    shown = {
        sample.labels["resource"]: sample.value
        for sample in families(metrics)["gangwright_resource_use_ratio"].samples
    }
    assert len(shown) <= 17
    assert shown["cpu"] == 0.5
    assert shown["other"] == 0.9999


def test_a_resource_that_left_leaves_the_metric():
    """A gauge does not keep saying what is no longer so."""
    metrics = Metrics()
    metrics.set_ratio(metrics.fragmentation_ratio, {"cpu": 0.5, "example.com/gpu": 0.1})
    metrics.set_ratio(metrics.fragmentation_ratio, {"cpu": 0.6})

    samples = families(metrics)["gangwright_fragmentation_ratio"].samples

    assert [(sample.labels["resource"], sample.value) for sample in samples] == [("cpu", 0.6)]


def test_two_of_them_are_independent():
    """A registry of its own each, so that tests and commands do not share counts."""
    first, second = Metrics(), Metrics()
    first.reseats_total.inc()

    assert second.registry.get_sample_value("gangwright_reseats_total") == 0


def test_the_table_is_markdown():
    """One row a metric, with type, labels and meaning."""
    rows = markdown(METRICS).splitlines()

    assert len(rows) == len(METRICS) + 2
    assert "| `gangwright_verb_total` | counter | `verb`, `result` |" in markdown(METRICS)
    assert all(row.count("|") == 5 for row in rows)
