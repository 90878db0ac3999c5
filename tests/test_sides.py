"""Tests that train are known by name, so that they are never dealt out among the others."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from bench.plane.installation import ROOT
from tests.conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler
from tests.support import sides

ELSEWHERE = "tests/kube/test_plane.py::test_a_refusal"


def an_item(name: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=name, fixturenames=[*fixtures, "tmp_path"])


def a_run(dist: str, only: str) -> Any:
    """What pytest knows of `pytest -n 2 --dist DIST -m ONLY`."""
    said = {"dist": dist, "markexpr": only, "tx": ["popen"] * 2}
    return SimpleNamespace(getvalue=said.__getitem__, option=SimpleNamespace(**said, loadscopereorder=False))


def test_all_tests_that_train_are_known(request: pytest.FixtureRequest) -> None:
    """Of those that were collected for this run, those that others then leave out included."""
    assert request.config.stash[sides.ASTRAY] == []


@pytest.mark.parametrize("fixture", sorted(sides.MAKES_WORKERS))
def test_a_test_that_trains_elsewhere_is_named(fixture: str) -> None:
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


@pytest.mark.parametrize("piece", sides.PIECES)
def test_a_piece_is_there(piece: str) -> None:
    """Its modules are, and their tests belong to it."""
    dealer = sides.Sides(a_run("loadscope", "plane"))
    for name in sides.PIECES[piece]:
        assert list(ROOT.glob(f"{name.removesuffix('.py')}*")), name
        assert dealer._split_scope(f"{name}::test_one[a::b]") == piece


def named(folder: str, words: str) -> set[str]:
    """The test modules of a folder in which these words stand."""
    modules = (ROOT / folder).glob("test_*.py")
    return {str(place.relative_to(ROOT)) for place in modules if re.search(words, place.read_text())}


def test_stories_that_break_something_are_known() -> None:
    """They say themselves whose Gangwright they have."""
    assert named("tests/stories", r"def gangwright\(frail: Installation\)") == {*sides.BREAKING}


def test_stories_that_train_with_tensorflow_are_known() -> None:
    """They name the training; all others have the stand-in."""
    folder = "tests/stories/elastic"
    known = {
        name
        for name in (*sides.TRAINS, *sides.PIECES["a row of sizes"])
        if name.startswith(f"{folder}/test_")
    }
    assert named(folder, r"\b(REAL|STOCK|EXAMPLES)\b") == known


def test_pieces_are_dealt_out_after_the_sides() -> None:
    """In the order of their table; of one piece the tests stay as they were collected."""
    pieces = [f"{names[0]}::test_one" for names in sides.PIECES.values()]
    real, seen = "tests/stories/elastic/horovod/test_runtime.py::test_one", ELSEWHERE
    items = [an_item(name) for name in (*pieces[::-1], f"{seen}2", real, f"{seen}1")]
    sides.in_order(items)
    assert [item.nodeid for item in items] == [real, f"{seen}2", f"{seen}1", *pieces]


@pytest.mark.parametrize(
    ("only", "moved"), [("plane ", True), ("plane and not extended", True), ("not plane", False), ("", False)]
)
def test_tests_are_put_in_order_where_all_of_the_plane_run(only: str, moved: bool) -> None:
    """Any other run is in the order that pytest, or chance, gives it."""
    asked: Any = SimpleNamespace(getvalue={"markexpr": only}.__getitem__, stash=pytest.Stash())
    items = [an_item(f"{sides.PIECES['experiments'][0]}::test_one"), an_item(ELSEWHERE)]
    list(pytest_collection_modifyitems(asked, items))
    assert (items[0].nodeid == ELSEWHERE) is moved


@pytest.mark.parametrize(
    ("dist", "only", "mine"),
    [("loadscope", "plane", True), ("loadscope", "not plane", False), ("load", "plane", False)],
)
def test_other_ways_of_dealing_are_left_alone(dist: str, only: str, mine: bool) -> None:
    """Only the plane's tests have sides, and only where whole scopes are dealt out."""
    assert isinstance(pytest_xdist_make_scheduler(a_run(dist, only), None), sides.Sides) is mine
