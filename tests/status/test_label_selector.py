"""Gangs chosen by labels: what a selector may say, and whom it chooses."""

import re
from dataclasses import replace

import pytest

from scheduler.ledger.gang import GangRecord, Member
from scheduler.model import names
from scheduler.model.workload import GangKey
from scheduler.status.label_selector import chooses, parse
from tests.engine.support.cast import a_pod
from tests.status.support.reviewing import ADMIN, JANE


def a_gang(*labels):
    """Its pods, the first of them first."""
    pods = [replace(a_pod(f"pod-{i}", created=float(i)), labels=own) for i, own in enumerate(labels)]
    return GangRecord(GangKey("default", "train"), members={pod.uid: Member(pod) for pod in reversed(pods)})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("team=vision", True),
        ("team==vision", True),
        ("team=nlp", False),
        ("team!=nlp", True),
        ("team!=vision", False),
        ("owner!=me", True),
        ("team", True),
        ("!team", False),
        ("!owner", True),
        ("team=vision,example.com/tier=gold", True),
        ("team=vision,!example.com/tier", False),
        ("empty=", True),
        ("", True),
    ],
)
def test_the_first_pods_labels_count(text, holds):
    """All terms must hold; a label that is not there differs from every value."""
    gang = a_gang("empty=,example.com/tier=gold,team=vision", "team=nlp")

    assert re.fullmatch(names.LABEL_SELECTOR, text) or not text
    assert chooses(parse(text), gang) is holds


@pytest.mark.parametrize(
    "text",
    ["team in (a)", "=a", "a=b,", "!a=b", "a=b=c", "a=b c", "a" * 64, "x=" + "y" * 64, ",".join("a" * 17)],
)
def test_what_is_no_selector(text):
    """Sets, halves of terms, and more terms than sixteen."""
    assert re.fullmatch(names.LABEL_SELECTOR, text) is None


def test_a_gang_without_pods_has_no_labels():
    """It lacks every label."""
    gang = GangRecord(GangKey("default", "train"))

    assert (chooses(parse("team"), gang), chooses(parse("!team"), gang)) == (False, True)


@pytest.mark.parametrize("path", ["/v1/gangs", "/v1/queue"])
async def test_hidden_gangs_are_not_chosen(status, path):
    """A selector would tell their labels: with one they are left out, whatever it says."""
    whole, own = await status.ask(path, ADMIN), await status.ask(path, JANE)
    chosen = await status.ask(f"{path}?labelSelector=!nothing", JANE)
    every = await status.ask(f"{path}?labelSelector=!nothing", ADMIN)

    assert {row["namespace"] for row in chosen.json["gangs"]} == {"team-a"}
    assert every.json["gangs"] == whole.json["gangs"]
    assert None in {row["namespace"] for row in own.json["gangs"]}
