"""Tests that train are known by name, so that they are never dealt out among the others."""

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import sides
from tests.conftest import pytest_xdist_make_scheduler
from tests.plane.installation import ROOT

ELSEWHERE = "tests/kube/test_plane.py::test_a_refusal"


def an_item(name: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=name, fixturenames=[*fixtures, "tmp_path"])


def a_run(dist: str, only: str) -> Any:
    """What pytest knows of `pytest -n 2 --dist DIST -m ONLY`."""
    said = {"dist": dist, "markexpr": only, "tx": ["popen", "popen"]}
    return SimpleNamespace(getvalue=said.__getitem__, option=SimpleNamespace(**said, loadscopereorder=False))


def test_all_tests_that_train_are_known(request: pytest.FixtureRequest) -> None:
    """Of those that were collected for this run, those that others then leave out included."""
    assert request.config.stash[sides.ASTRAY] == []


@pytest.mark.parametrize("fixture", sorted(sides.MAKES_WORKERS))
def test_a_test_that_trains_where_nobody_expects_it_is_named(fixture: str) -> None:
    """It asks for real workers, and its name is in no row of either table."""
    known = [an_item(f"{name}::test_one", fixture) for name in (sides.TRAINS[0], sides.LIGHT[0])]
    assert sides.unplaced([*known, an_item(ELSEWHERE, fixture), an_item(ELSEWHERE)]) == [ELSEWHERE]


def test_there_are_two_sides() -> None:
    """Whatever trains is of one, what does not, or takes little, of the other; xdist asks by this name."""
    assert hasattr(LoadScopeScheduling, "_split_scope")
    dealer = sides.Sides(a_run("loadscope", "plane"))
    found = {dealer._split_scope(f"{name}::test_one") for name in sides.TRAINS}
    others = {
        dealer._split_scope(name) for name in (ELSEWHERE, *(f"{name}::test_one" for name in sides.LIGHT))
    }
    assert (found, others) == ({"training"}, {"placing"})


def test_what_comes_last_is_of_neither_side() -> None:
    """Its modules are there, and are among those in which real workers train; the longest is collected first."""
    dealer = sides.Sides(a_run("loadscope", "plane"))
    for module, piece in sides.LAST.items():
        assert (ROOT / module).is_file()
        assert module.startswith(sides.TRAINS)
        assert dealer._split_scope(f"{module}::test_one[a::b]") == piece
        assert piece not in {"training", "placing"}
    assert min(sides.LAST).endswith("/test_row.py")


@pytest.mark.parametrize(
    ("dist", "only", "mine"),
    [("loadscope", "plane", True), ("loadscope", "not plane", False), ("load", "plane", False)],
)
def test_other_ways_of_dealing_are_left_alone(dist: str, only: str, mine: bool) -> None:
    """Only the plane's tests have sides, and only where whole scopes are dealt out."""
    assert isinstance(pytest_xdist_make_scheduler(a_run(dist, only), None), sides.Sides) is mine
