"""Watches that go on where a connection ended, against a client that plays a script."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from bench.plane import watches
from bench.plane.client import Object, key, where
from bench.plane.errors import ApiError, NeverCameError


def pod(name: str, version: int, node: str | None = None) -> Object:
    meta = {"name": name, "namespace": "team", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": {}}


class Script:
    """A client whose lists and watch connections are given beforehand; keeps from where each watch was begun."""

    def __init__(self, lists: list[list[Object]], connections: list[list[Any]]) -> None:
        self._lists, self._connections = lists, connections
        self.begun: list[str] = []

    async def request(self, _method: str, _path: str, **_query: Any) -> Object:
        items = self._lists.pop(0)
        newest = max((int(item["metadata"]["resourceVersion"]) for item in items), default=1)
        return {"items": items, "metadata": {"resourceVersion": str(newest)}}

    async def lines(self, _path: str, **query: Any) -> AsyncIterator[Object]:
        self.begun.append(query["resourceVersion"])
        for line in self._connections.pop(0):
            if isinstance(line, Exception):
                raise line
            yield {"type": line[0], "object": line[1]}


async def seen(script: Script, count: int) -> list[tuple[str, str]]:
    """The first `count` changes of the script's pods."""
    found = []
    async for kind, thing in watches.changes(script, where("pods")):  # type: ignore[arg-type]
        found.append((kind, key(thing)))
        if len(found) == count:
            break
    return found


async def test_closed_watch_goes_on() -> None:
    """The end of a connection is not the end of the story: the next begins at the last version seen."""
    script = Script([[pod("a", 5)]], [[("MODIFIED", pod("a", 7))], [], [("ADDED", pod("b", 9))]])

    assert await seen(script, 3) == [("ADDED", "team/a"), ("MODIFIED", "team/a"), ("ADDED", "team/b")]
    assert script.begun == ["5", "7", "7"]


async def test_bookmarks_move_the_place_alone() -> None:
    """A bookmark is no change of anything, but the next connection begins there."""
    script = Script([[]], [[("BOOKMARK", pod("", 40))], [("ADDED", pod("b", 41))]])

    assert await seen(script, 1) == [("ADDED", "team/b")]
    assert script.begun == ["1", "40"]


@pytest.mark.parametrize("expired", [("ERROR", {"code": 410}), ApiError(410, "Expired", "too old")])
async def test_expired_version_lists_anew(expired: Any) -> None:
    """When the place has expired, a new list tells what came, went and changed meanwhile."""
    script = Script([[pod("a", 5), pod("b", 6)], [pod("b", 8), pod("c", 9)]], [[expired], []])

    changes = await seen(script, 5)

    assert changes[2:] == [("DELETED", "team/a"), ("MODIFIED", "team/b"), ("ADDED", "team/c")]


@pytest.mark.parametrize(
    "trouble", [aiohttp.ClientPayloadError("cut"), ConnectionResetError(), ApiError(503, "", "")]
)
async def test_outage_is_sat_out(trouble: Exception) -> None:
    """A broken connection or a server that cannot answer now is tried again from the same place."""
    script = Script([[pod("a", 5)]], [[trouble], [("MODIFIED", pod("a", 6))]])

    assert await seen(script, 2) == [("ADDED", "team/a"), ("MODIFIED", "team/a")]
    assert script.begun == ["5", "5"]


async def test_wrong_question_is_an_error() -> None:
    """What the server will never answer is raised, not asked for ever."""
    script = Script([[]], [[ApiError(404, "NotFound", "no such kind")]])

    with pytest.raises(ApiError, match="no such kind"):
        await seen(script, 1)


async def test_binds_are_noted_once() -> None:
    """A pod counts as bound when its node is first seen, whatever happens to it later."""
    later = [("MODIFIED", pod("a", 6, "n1")), ("MODIFIED", pod("a", 7, "n1")), ("ADDED", pod("b", 8, "n2"))]
    script = Script([[pod("a", 5)]], [later, *([] for _ in range(1000))])

    async with watches.binds(script) as binds:  # type: ignore[arg-type]
        assert await binds.reach(2, within=5) == {"team/a": "n1", "team/b": "n2"}


async def test_what_never_came_shows_what_did() -> None:
    """A wait that ends in vain tells the state of every object that was there."""

    class Still(Script):
        async def items(self, _path: str, **_query: Any) -> list[Object]:
            return [pod("a", 5, "n1")]

    script = Still([[pod("a", 5, "n1")]], [[] for _ in range(1000)])

    with pytest.raises(NeverCameError, match=r"within 0\.1 s(?s:.*)team/a node=n1"):
        await watches.until(script, where("pods"), lambda pods: len(pods) == 2, within=0.1)  # type: ignore[arg-type]


async def test_what_went_between_two_looks_is_gone() -> None:
    """A wait forgets what was there when it began and was gone when it began to watch."""

    class Passing(Script):
        async def items(self, _path: str, **_query: Any) -> list[Object]:
            return [pod("a", 5), pod("b", 6)]

    script = Passing([[pod("b", 6)]], [[] for _ in range(1000)])

    left = await watches.until(script, where("pods"), lambda pods: len(pods) == 1, within=5)  # type: ignore[arg-type]
    assert [key(one) for one in left] == ["team/b"]


async def test_one_object_is_followed() -> None:
    """A wait for one object asks once, and then sees what the watch tells of it."""
    script = Script([[pod("a", 5)]], [[("MODIFIED", pod("a", 6, "n1"))], *([] for _ in range(1000))])

    found = await watches.until_one(script, where("pods", "team", "a"), _bound, within=5)  # type: ignore[arg-type]

    assert found == pod("a", 6, "n1")
    assert script.begun[0] == "5"


async def test_what_holds_may_depend_on_something_else() -> None:
    """It is asked again although the object did not change."""
    script = Script([[pod("a", 5)]], [[] for _ in range(1000)])
    asked: list[Object] = []

    def third(thing: Object) -> bool:
        asked.append(thing)
        return len(asked) == 3

    found = await watches.until_one(script, where("pods", "team", "a"), third, within=5)  # type: ignore[arg-type]

    assert asked == [found, found, found]


async def test_one_object_that_never_comes_to_hold_is_shown() -> None:
    """A wait that ends in vain tells the object's last status."""
    last = {**pod("a", 6), "status": {"phase": "Pending"}}
    script = Script([[pod("a", 5)]], [[("MODIFIED", last)], *([] for _ in range(1000))])

    with pytest.raises(NeverCameError, match=r'pods/a did not come to hold within 0\.2 s(.|\n)*"Pending"'):
        await watches.until_one(script, where("pods", "team", "a"), _bound, within=0.2)  # type: ignore[arg-type]


async def test_a_wait_that_is_refused_ends_at_once() -> None:
    """What the server will never answer is no reason to wait."""
    script = Script([[]], [[ApiError(403, "Forbidden", "not yours")]])

    with pytest.raises(ApiError, match="not yours"):
        await watches.until_one(script, where("pods", "team", "a"), _bound, within=60)  # type: ignore[arg-type]


def _bound(thing: Object) -> bool:
    return bool(thing["spec"].get("nodeName"))
