"""Tests that train are known by name, so that they are never dealt out among the others."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import sides

ELSEWHERE = "tests/kube/test_plane.py::test_a_refusal"


def an_item(name: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=name, fixturenames=[*fixtures, "tmp_path"])


@pytest.mark.parametrize("fixture", sorted(sides.MAKES_WORKERS))
def test_a_test_that_trains_where_nobody_expects_it_is_named(fixture: str) -> None:
    """It asks for real workers, and its name is in no row of the table."""
    known = an_item(f"{sides.TRAINS[0]}::test_one", fixture)
    assert sides.unplaced([known, an_item(ELSEWHERE, fixture)]) == [ELSEWHERE]


def test_tests_without_workers_stand_on_the_other_side() -> None:
    """Whatever they are called; and what is no test function has no fixtures at all."""
    assert sides.unplaced([an_item(ELSEWHERE), SimpleNamespace(nodeid="README.md")]) == []  # type: ignore[list-item]
