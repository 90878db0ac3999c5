"""Every dashboard asks for what we export, in PromQL that parses, on any data source."""

import json
import re
from collections import Counter

import promql_parser
import pytest

from tests.manifests.support.promql import exported, grouped, selected
from tests.manifests.support.rendering import MANIFESTS
from tests.telemetry.rows import ELASTIC, METRICS, PREFIX

DASHBOARDS = sorted((MANIFESTS / "dashboards").glob("*.json"))
EXPORTED = {"placement": METRICS, "elastic": ELASTIC}
"""Dashboard → the metrics of the program that it shows."""

VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$job": ".+"}
NOT_SHOWN = {"log_lines_suppressed_total"}
"""Metrics that need no panel: they explain a log, not a cluster."""

pytestmark = pytest.mark.parametrize("place", DASHBOARDS, ids=lambda place: place.stem)


def dashboard(place):
    return json.loads(place.read_text(encoding="utf-8"))


def panels(place):
    return [panel for panel in dashboard(place)["panels"] if panel["type"] != "row"]


def queries(place):
    """Every query of every panel, its variables filled in."""
    for panel in panels(place):
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield panel["title"], text


def test_queries_parse(place):
    """Every query is PromQL, with no variable left that Grafana would not fill."""
    for title, text in queries(place):
        assert "$" not in text, title
        assert promql_parser.parse(text), title


def test_series_exist(place):
    """Every series that is asked for is exported, and so is every label that is matched or grouped by."""
    series = exported(EXPORTED[place.stem])
    for title, text in queries(place):
        tree = promql_parser.parse(text)
        found = list(selected(tree))
        assert found, title
        for name, matched in found:
            assert name in series, title
            assert matched <= series[name] | {"job"}, title
        for labels, names in grouped(tree):
            assert all(labels <= series[name] | {"job"} for name in names), title


def test_legends_name_what_is_grouped(place):
    """A legend names only labels that the query keeps."""
    for panel in panels(place):
        for target in panel["targets"]:
            named = set(re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]))
            kept = set().union(
                *(labels for labels, _ in grouped(promql_parser.parse(_filled(target["expr"]))))
            )
            assert named <= kept, panel["title"]


def _filled(text):
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return text


def test_every_metric_is_shown(place):
    """Whatever we export about the cluster is on a panel."""
    shown = {name for _, text in queries(place) for name, _ in selected(promql_parser.parse(text))}
    missing = {
        row.name
        for row in EXPORTED[place.stem]
        if row.name not in NOT_SHOWN and not any(name.startswith(PREFIX + row.name) for name in shown)
    }

    assert missing == set()


def test_panels(place):
    """Every panel has an id of its own, a title of its own, a unit, and says what it shows."""
    everything = dashboard(place)["panels"]
    ids = Counter(panel["id"] for panel in everything)
    titles = Counter(panel["title"] for panel in everything)

    assert set(ids.values()) == set(titles.values()) == {1}
    for panel in panels(place):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references), panel["title"]


def test_no_panel_covers_another(place):
    """No two panels share a cell of the grid, and none is wider than it."""
    cells = Counter(
        (x, y)
        for panel in dashboard(place)["panels"]
        for grid in [panel["gridPos"]]
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    )

    assert set(cells.values()) == {1}
    assert max(x for x, _ in cells) < 24


def test_any_data_source(place):
    """No data source is built in: each panel and query takes the one that is chosen on the page."""
    board = dashboard(place)
    sources = [panel["datasource"] for panel in panels(place)]
    sources += [target["datasource"] for panel in panels(place) for target in panel["targets"]]
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}

    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert variables["datasource"]["type"] == "datasource"
    assert "id" not in board
    assert board["uid"] == f"gangwright-{place.stem}"
