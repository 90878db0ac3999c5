"""README.md says what is true: its tables are those of the code, and what it names exists."""

import re
from typing import Any

import pytest
import typer
import yaml

from scheduler.cli.command_line import app
from scheduler.cli.manifest_pods import templates
from scheduler.elastic.job import decode_spec
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.decision import TEXT, Reason
from scheduler.model.workload import GangKey, Strategy
from scheduler.objects import labels
from scheduler.objects.gangs import FORMATS, read
from tests.readme import README, ROOT, rewritten, table

PAGE = README.read_text(encoding="utf-8")

NOT_KEYS = {"OURS", "REPORTER"}
"""Words of `labels` that begin with our prefix and are no key of a pod."""

PATHS = re.compile(r"`((?:manifests|extender_config|scheduler|tests|bench)/[\w./-]+|[A-Z]+\.md)`")


def section(heading: str) -> str:
    return PAGE.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]


def sample(heading: str) -> dict[str, Any]:
    """The first object that a section shows."""
    (text,) = re.findall(r"```yaml\n(.*?)```", section(heading), re.DOTALL)[:1]
    return dict(yaml.safe_load(text))


def words(cell: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


def test_generated_tables_are_current():
    """The tables of metrics and settings are what `python -m tests.readme` makes of the code."""
    assert rewritten(PAGE) == PAGE


def test_reasons():
    """Every reason is in the table, in order, with the very text that people are shown; and no other."""
    rows = table(PAGE, "## What waits, and why")

    assert [(row[0], row[1]) for row in rows] == [(f"`{reason.value}`", TEXT[reason]) for reason in Reason]
    assert all(len(row) == 3 and row[2] for row in rows)


def test_labels():
    """Every label, annotation, gate and condition of ours is in the table, and no other."""
    ours = {
        value
        for name, value in vars(labels).items()
        if isinstance(value, str) and value.startswith(labels.OURS) and name not in NOT_KEYS
    }

    assert {row[0].strip("`") for row in table(PAGE, "### Labels and annotations")} == ours


def test_formats():
    """Every gang format is in the table, in the order in which they count, with keys that are really read."""
    rows = table(PAGE, "### Gang formats")
    keys = {word for row in rows for cell in row[1:3] for word in words(cell) if "/" in word}

    assert [row[0] for row in rows] == [f"`{form.name}`" for form in FORMATS]
    assert keys <= {value for value in vars(labels).values() if isinstance(value, str)}


def test_strategies_and_levels():
    """Every strategy has its row, and the levels that are named are the default ones."""
    assert [row[0] for row in table(PAGE, "### Where a gang goes")] == [f"`{own.value}`" for own in Strategy]
    named = {row[0]: row[2] for row in table(PAGE, "### Labels and annotations")}["`gangwright.io/level`"]
    assert {level.name for level in DEFAULT_LEVELS} <= words(named)


def test_the_sample_is_a_gang():
    """The Job that a newcomer copies is read as a gang of its four pods, without a complaint."""
    job = sample("## Submit a gang")
    said = job["spec"]["template"]
    found = read("team", said["metadata"]["labels"], said["metadata"]["annotations"], DEFAULT_LEVELS)

    assert found.complaints == ()
    assert found.membership.quorum == {"": job["spec"]["parallelism"]}
    assert said["spec"]["schedulerName"] == "gangwright"


def test_the_converted_job_is_one_gang():
    """The training job of several kinds of replicas is read as one gang of all its pods, without a complaint."""
    made = templates(sample("### Convert a job you have"), "team")
    found = {own.name: (own, reading_of(own)) for own in made}

    assert [one.complaints for _, one in found.values()] == [(), ()]
    assert {one.membership.gang for _, one in found.values()} == {GangKey("team", "bert")}
    assert {one.membership.role: own.count for own, one in found.values()} == {"master": 1, "worker": 3}
    assert all(one.membership.quorum == {"master": 1, "worker": 3} for _, one in found.values())
    assert {own.pod["spec"]["schedulerName"] for own in made} == {"gangwright"}


def reading_of(made):
    """What the pods of this template say of their gang."""
    said = made.pod["metadata"]
    return read("team", said["labels"], said["annotations"], DEFAULT_LEVELS)


def test_the_elastic_sample_is_read():
    """The ElasticJob that a newcomer copies is understood, its quorum below its largest size."""
    spec, problems = decode_spec(sample("## Jobs that change their size")["spec"])

    assert problems == ()
    assert spec is not None
    assert spec.min_workers < spec.max_workers


def test_paths_exist():
    """Every file and folder that the page names is there."""
    named = set(PATHS.findall(PAGE)) | set(re.findall(r"-k (\S+)", PAGE))

    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_links_lead_somewhere():
    """Every link inside the page is to one of its headings, as the forges make anchors of them."""
    headings = re.findall(r"^#{2,3} (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    named = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert named
    assert named <= anchors


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(page):
    """Every `make` target that a page names is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):.*##", makefile, re.MULTILINE))
    named = set(
        re.findall(r"(?:`|^|\|\s*)make ([a-z]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    )

    assert named
    assert named <= targets


def test_commands_exist():
    """Every command of `gangwright` that the page names is one."""
    commands = set(typer.main.get_command(app).commands)
    named = set(re.findall(r"(?:`|^)gangwright ([a-z]+)", PAGE, re.MULTILINE))

    assert "ungate" in named
    assert named <= commands


def test_every_command_has_its_row():
    """The table of commands names all of them, and no other."""
    named = [
        word.split()[0]
        for row in table(PAGE, "## The command line")
        for word in re.findall(r"`([^`]+)`", row[0])
    ]

    assert set(named) == set(typer.main.get_command(app).commands)


def test_uninstall_takes_the_gate_away_first():
    """The order that strands no pod: the gate policy by its real name, then `ungate`, then everything else."""
    gate = ROOT / "manifests" / "components" / "gate-policy" / "gate.yaml"
    names = {
        document["metadata"]["name"] for document in yaml.safe_load_all(gate.read_text(encoding="utf-8"))
    }
    steps = re.search(r"```sh\n(.*?)```", section("## Uninstall"), re.DOTALL)[1].splitlines()

    assert [step.split()[0:2] for step in steps] == [
        ["kubectl", "delete"],
        ["gangwright", "ungate"],
        ["kubectl", "delete"],
    ]
    assert names == {steps[0].split()[3]}
