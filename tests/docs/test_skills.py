"""The skills for coding agents: they name real fields and reasons, and change nothing."""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from scheduler.model.decision import Reason
from scheduler.status import accounting, schemas
from tests.docs import words

ROOT: Final = Path(__file__).parents[2]
SKILLS: Final = sorted((ROOT / ".agents" / "skills").glob("*/SKILL.md"))

READ_ONLY: Final = {"explain", "history", "list", "nodes", "queue", "shares", "simulate"}

FIELDS: Final = {
    field.encode_name
    for module in (schemas, accounting)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    for field in msgspec.structs.fields(kind)
}
"""Every field of the JSON that the commands answer with."""


def tables(text: str, head: str) -> list[list[str]]:
    """The rows of all tables whose first column is called so."""
    found = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [
        [cell.strip() for cell in row.strip("|").split("|")] for rows in found for row in rows.splitlines()
    ]


def named(cell: str) -> set[str]:
    """The words in backticks, paths taken apart."""
    said = re.findall(r"`([a-zA-Z.]+)(?:\[\])?(?:: [^`]*)?`", cell)
    return {part for own in said for part in own.split(".")}


def texts() -> list[str]:
    return [place.read_text(encoding="utf-8") for place in SKILLS]


@pytest.mark.parametrize("place", SKILLS, ids=lambda place: place.parent.name)
def test_front_matter(place):
    """A skill has the name of its folder, and says when to use it in at most 1024 characters."""
    head = yaml.safe_load(place.read_text(encoding="utf-8").split("---\n")[1])

    assert head["name"] == place.parent.name
    assert head["description"].startswith("Use when")
    assert len(head["description"]) <= 1024


@pytest.mark.parametrize("place", SKILLS, ids=lambda place: place.parent.name)
def test_commands_only_read(place):
    """What a skill has an agent run changes nothing in the cluster."""
    blocks = re.findall(r"```sh\n(.*?)```", place.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]

    assert lines
    assert {line.split()[0] for line in lines} <= {"gangwright", "kubectl"}
    assert {line.split()[1] for line in lines if line.startswith("gangwright ")} <= READ_ONLY
    assert all(" get " in line for line in lines if line.startswith("kubectl "))


def test_fields_exist():
    """Every field that a table explains is one of the answers' JSON."""
    found = {name for text in texts() for row in tables(text, "field") for name in named(row[0])}

    assert {"shortfalls", "wouldCost", "borrowed", "at"} <= found
    assert found <= FIELDS


def test_reasons_exist():
    """Every reason that a skill explains is in the closed list."""
    found = {
        name
        for text in texts()
        for row in tables(text, "`reason`")
        for name in re.findall(r"`(\w+)`", row[0])
    }

    assert len(found) > 15
    assert found <= {reason.value for reason in Reason}


@pytest.mark.parametrize("place", SKILLS, ids=lambda place: place.parent.name)
def test_words(place):
    """No forbidden word."""
    assert list(words.finds(place)) == []
