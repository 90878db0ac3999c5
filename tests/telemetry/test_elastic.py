"""The metrics of the elastic master: one table, one attribute a row, labels that are closed lists."""

from prometheus_client import generate_latest

from scheduler.telemetry.elastic_metrics import ElasticMetrics
from tests.telemetry.rows import COUNTER, ELASTIC, GROUP, METRICS, PREFIX, markdown


def test_every_row_is_an_attribute():
    """Named as it without the group; what runs is told by labels alone."""
    metrics = ElasticMetrics()

    for row in ELASTIC:
        assert hasattr(metrics, row.name.removeprefix(GROUP)) or row.name == "build_info"


def test_every_name_is_of_the_group_and_of_one_table():
    """A dashboard can tell the two programs apart by the names alone."""
    own = {row.name for row in ELASTIC} - {"build_info"}

    assert all(name.startswith(GROUP) for name in own)
    assert own.isdisjoint(row.name for row in METRICS)
    assert all(row.name.endswith("_total") == (row.kind == COUNTER) for row in ELASTIC)


def test_nothing_of_a_job_is_a_label():
    """Labels have few values; jobs and workers have many. What scripts report means nothing without its job."""
    found = {row.name: set(row.labels) for row in ELASTIC}

    assert found.pop("elastic_reported") == {"elasticjob", "value"}
    assert (
        set()
        .union(*found.values())
        .isdisjoint({"job", "elasticjob", "namespace", "pod", "worker", "node", "uid"})
    )


def test_the_scrape_and_the_table_agree():
    """Every row is in the scrape under its full name, and in the table that people read."""
    text, table = generate_latest(ElasticMetrics().registry).decode(), markdown(ELASTIC)

    for row in ELASTIC:
        assert f"# HELP {PREFIX}{row.name.removesuffix('_total')}" in text
        assert f"`{PREFIX}{row.name}`" in table
