"""The tables of the reference pages are those of the code."""

import re

import yaml

from scheduler.cli.commands import TABLE
from scheduler.elastic.runtime import script_api
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import Strategy
from scheduler.objects import labels
from scheduler.objects.gangs import FORMATS
from scheduler.status.routes import ROUTES
from tests.docs import command_reference, elasticjob_reference
from tests.docs.generate import BLOCK, MAKERS, rewritten
from tests.docs.pages import DOCS, ROOT, in_backticks, page, pages

NOT_KEYS = {"OURS", "REPORTER"}
"""Words of `labels` that begin with our prefix and are no key of a pod."""
OF_ADMINISTRATORS = {"gangwright.io/rack", "gangwright.io/elastic-host-access"}
"""Keys of nodes and namespaces."""


def first_words(name, *headings):
    """What stands in backticks at the beginning of each row of the tables under these headings."""
    own = page(name)
    return [re.match(r"`([^`]+)`", row[0])[1] for heading in headings for row in own.table(heading)]


def test_generated_tables_are_current():
    """What `python -m tests.docs.generate` writes is on the pages, and every maker has its place."""
    found = [own for own in pages() if own.path.is_relative_to(DOCS)]

    assert [str(own) for own in found if rewritten(own.text) != own.text] == []
    assert sorted(name for own in found for _, name, _ in BLOCK.findall(own.text)) == sorted(MAKERS)


def test_reasons():
    """Every reason is in the table, in order, with the very text that users are shown; and no other."""
    rows = page("docs/reference/reasons.md").table("## All reasons")

    assert [(row[0], row[1]) for row in rows] == [(f"`{reason.value}`", TEXT[reason]) for reason in Reason]
    assert all(len(row) == 3 and row[2] for row in rows)


def test_labels():
    """Every label, annotation, gate and condition of ours is in a table, and no other."""
    ours = {
        value
        for name, value in vars(labels).items()
        if isinstance(value, str) and value.startswith(labels.OURS) and name not in NOT_KEYS
    }
    who = ("You write", "Gangwright writes", "The elastic master writes", "Administrators write")
    found = first_words("docs/reference/labels.md", *(f"## {own} these" for own in who))

    assert len(found) == len(set(found))
    assert set(found) == ours | OF_ADMINISTRATORS


def test_formats():
    """Every gang format is in the table, in the order in which they count, with keys that are really read."""
    rows = page("docs/reference/formats.md").table("# Gang formats")
    keys = {word for row in rows for cell in row[1:3] for word in in_backticks(cell) if "/" in word}

    assert [row[0] for row in rows] == [f"`{form.name}`" for form in FORMATS]
    assert keys <= {value for value in vars(labels).values() if isinstance(value, str)}


def test_strategies_and_levels():
    """Every strategy has its row, and the levels that are named are the default ones."""
    rows = page("docs/concepts/placement.md").table("## Strategies")
    (level,) = [
        row for row in page("docs/reference/labels.md").table("## You write these") if "/level`" in row[0]
    ]

    assert [row[0] for row in rows] == [f"`{own.value}`" for own in Strategy]
    assert {own.name for own in DEFAULT_LEVELS} <= in_backticks(level[2])


def test_routes():
    """Every route of the status API has its row, and no other."""
    rows = first_words("docs/reference/status-api.md", "## Routes")
    assert sorted(rows) == sorted(f"{own.method} {own.path}" for own in ROUTES)


def test_calls_of_a_script():
    """Every function that a training script may call has its row, and no other."""
    found = first_words("docs/reference/elasticjob.md", "## In the training script")
    named = {name for row in found for name in re.findall(r"(\w+)\(", row)}

    assert named == {own for own in script_api.__all__ if own.islower()}


def test_every_field_of_an_elastic_job():
    """The tables name every field of the schema, parents before what is in them."""
    for part in ("spec", "status"):
        found = first_words("docs/reference/elasticjob.md", f"## {part.title()}")
        assert [f"{part}.{name}" for name in found] == [own.path for own in elasticjob_reference.fields(part)]
        assert len(found) > 30


def test_every_command():
    """Every command of the help has its row and its section, with each of its options and examples."""
    own = page("docs/reference/cli.md")
    names = [name for name, _ in command_reference.found()]

    assert {row.name for row in TABLE} < set(names)
    assert [heading.text for heading in own.headings if heading.text.startswith("gangwright ")] == [
        f"gangwright {name}" for name in names
    ]
    for row in TABLE:
        section = own.section(f"## gangwright {row.name}").text
        assert all(f"\n{example}\n" in section for example in row.examples)
    assert "`--selector TEXT`" in own.section("## gangwright list").text


def test_uninstall_takes_the_gate_away_first():
    """The order that strands no pod: the gate policy by its real name, then `ungate`, then everything else."""
    gate = ROOT / "manifests" / "components" / "gate-policy" / "gate.yaml"
    names = {
        document["metadata"]["name"] for document in yaml.safe_load_all(gate.read_text(encoding="utf-8"))
    }
    block = next(
        own
        for own in page("docs/get-started/install.md").section("## Uninstall").blocks
        if "ungate" in own.text
    )
    steps = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]

    assert [step.split()[0:2] for step in steps] == [
        ["kubectl", "delete"],
        ["gangwright", "ungate"],
        ["kubectl", "delete"],
    ]
    assert names == {steps[0].split()[3]}
