"""What the Prometheus operator is given: every replica is scraped, and every alert asks for what we export."""

import re

import promql_parser
import pytest

from scheduler.elastic.controller.request_retry import COUNTED
from scheduler.model.events import FailureKind
from scheduler.objects.watched_resources import RESOURCES
from tests.manifests.support.promql import exported, grouped, selectors
from tests.manifests.support.rendering import named, of_kind
from tests.telemetry.rows import ELASTIC, METRICS

COMPONENT = "components/prometheus-operator"
OF_THE_TARGET = {"job", "pod"}
"""Labels that the operator puts on whatever is scraped."""

KNOWN = {
    ("gangwright_effects_total", "result"): {*FailureKind, "done"},
    ("gangwright_elastic_writes_total", "result"): set(COUNTED),
    ("gangwright_verb_total", "result"): {"allowed", "refused", "error"},
    ("gangwright_cache_age_seconds", "resource"): {
        resource.path.rsplit("/", 1)[-1] for resource in RESOURCES if resource.decides
    },
}
"""Closed lists of the labels that alerts match."""


def rules():
    (found,) = of_kind(COMPONENT, "PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def kept(tree):
    """Labels that an alert has when it fires."""
    return set.intersection(*(labels for labels, _ in grouped(tree))) if list(grouped(tree)) else set()


every_rule = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])


@every_rule
def test_series_and_labels_exist(rule):
    """Every series that an alert asks for is exported, with each label that is matched or grouped by."""
    series = exported((*METRICS, *ELASTIC))
    tree = promql_parser.parse(rule["expr"])

    found = list(selectors(tree))
    assert found
    for each in found:
        assert {matcher.name for matcher in each.matchers.matchers} <= series[each.name]
    for labels, names in grouped(tree):
        assert all(labels <= series[name] | OF_THE_TARGET for name in names)


@every_rule
def test_matched_values_exist(rule):
    """What an alert matches is a word that the label can have: a misspelt one would keep it silent for ever."""
    for each in selectors(promql_parser.parse(rule["expr"])):
        for matcher in each.matchers.matchers:
            assert set(matcher.value.split("|")) <= KNOWN[each.name, matcher.name]


@every_rule
def test_words(rule):
    """Each alert says how grave it is, what stands still and where to look, and names only labels that it has."""
    said = rule["annotations"]
    told = set(re.findall(r"\$labels\.(\w+)", " ".join(said.values())))

    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    assert set(said) == {"summary", "description"}
    assert all(text.endswith(".") for text in said.values())
    assert told <= kept(promql_parser.parse(rule["expr"]))


def test_names():
    """No two alerts share a name, and all begin with ours."""
    names = [rule["alert"] for rule in rules()]

    assert len(set(names)) == len(names)
    assert all(name.startswith("Gangwright") for name in names)


@pytest.mark.parametrize("program", ["gangwright", "gangwright-elastic"])
def test_both_programs_are_scraped(program):
    """The monitor selects the Service of each program's metrics by its labels and the name of its port."""
    (monitor,) = of_kind(COMPONENT, "ServiceMonitor")
    service = named("overlays/with-elastic", "Service", f"{program}-metrics")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    (port,) = service["spec"]["ports"]

    assert wanted
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [port["name"]]
    assert service["metadata"]["namespace"] == monitor["metadata"]["namespace"]
