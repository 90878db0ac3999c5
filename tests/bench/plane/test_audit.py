"""The audit log as values."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.plane.audit import Audit


def line(user: str, verb: str, code: int = 200, **target: str) -> str:
    entry: dict[str, Any] = {"verb": verb, "user": {"username": user}, "requestURI": "/somewhere"}
    return json.dumps(entry | {"objectRef": target, "responseStatus": {"code": code}}) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    place = tmp_path / "audit.log"
    place.write_text(
        line("ann", "patch", resource="pods", namespace="team", name="a-0")
        + line("ann", "create", 201, resource="pods", subresource="eviction")
        + line("ann", "delete", 403, resource="nodes")
        + line("bob", "list", resource="podgroups", apiGroup="scheduling.k8s.io")
    )
    return place


def test_used_rights_are_verbs_on_resources(log: Path) -> None:
    """What was granted is told as a role would write it: subresources and groups named, refusals left out."""
    audit = Audit(log)

    assert audit.used("ann") == {("patch", "pods"), ("create", "pods/eviction")}
    assert audit.used("bob") == {("list", "podgroups.scheduling.k8s.io")}


def test_refusals_are_told_per_user(log: Path) -> None:
    """A refusal is found under the user who met it."""
    audit = Audit(log)

    assert [(each.verb, each.resource) for each in audit.refused("ann")] == [("delete", "nodes")]
    assert audit.refused("bob") == []


def test_mark_begins_a_new_page(log: Path) -> None:
    """Since a mark, only later requests count."""
    audit = Audit(log)
    mark = audit.mark()
    with log.open("a") as more:
        more.write(line("ann", "get", resource="leases"))

    assert audit.used("ann", since=mark) == {("get", "leases")}


def test_mark_inside_of_a_line_is_its_beginning(log: Path) -> None:
    """The API server writes while others read: a line of which half is there is not read, and is later than a mark."""
    late = line("ann", "get", resource="leases")
    for told in range(len(late)):
        audit = Audit(log)
        before = log.read_text()
        with log.open("a") as more:
            more.write(late[:told])
        mark = audit.mark()
        assert list(audit.requests(since=mark)) == []
        with log.open("a") as more:
            more.write(late[told:])
        assert audit.used("ann", since=mark) == {("get", "leases")}
        log.write_text(before)
