"""The metrics of the elastic master: one table, one attribute a row, labels that are closed lists."""

from prometheus_client import generate_latest

from scheduler.telemetry.elastic_metrics import GROUP, METRICS, ElasticMetrics
from scheduler.telemetry.metrics import METRICS as SCHEDULERS
from scheduler.telemetry.metrics import PREFIX, Kind, markdown


def test_every_row_is_an_attribute():
    """The class declares what the table makes, in its order."""
    assert [row.name.removeprefix(GROUP) for row in METRICS] == list(ElasticMetrics.__annotations__)


def test_every_name_is_of_the_group_and_of_one_table():
    """A dashboard can tell the two programs apart by the names alone."""
    own = {row.name for row in METRICS} - {"build_info"}

    assert all(name.startswith(GROUP) for name in own)
    assert own.isdisjoint(row.name for row in SCHEDULERS)
    assert all(row.name.endswith("_total") == (row.kind is Kind.COUNTER) for row in METRICS)


def test_nothing_of_a_job_is_a_label():
    """Labels have few values; jobs and workers have many. What scripts report means nothing without its job."""
    found = {row.name: set(row.labels) for row in METRICS}

    assert found.pop("elastic_reported") == {"elasticjob", "value"}
    assert (
        set()
        .union(*found.values())
        .isdisjoint({"job", "elasticjob", "namespace", "pod", "worker", "node", "uid"})
    )


def test_the_scrape_and_the_table_agree():
    """Every row is in the scrape under its full name, and in the table that people read."""
    text, table = generate_latest(ElasticMetrics().registry).decode(), markdown(METRICS)

    for row in METRICS:
        assert f"# HELP {PREFIX}{row.name.removesuffix('_total')}" in text
        assert f"`{PREFIX}{row.name}`" in table
