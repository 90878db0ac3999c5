"""The door before the API server, before a server that only remembers what it was told."""

import asyncio
import itertools
import json

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.plane.errors import NeverCameError
from bench.plane.proxy import Proxy


class Memory:
    """A server that keeps what is written, and tells a watch everything it ever got."""

    def __init__(self):
        self.kept = []
        self.news = asyncio.Condition()

    async def write(self, request):
        async with self.news:
            self.kept.append(await request.text())
            self.news.notify_all()
        return web.json_response({"kept": len(self.kept)}, status=201)

    async def watch(self, request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        for number in itertools.count():
            async with self.news:
                while len(self.kept) <= number:
                    await self.news.wait()
            await answer.write(self.kept[number].encode() + b"\n")


@pytest.fixture
async def memory():
    remembered = Memory()
    app = web.Application()
    app.add_routes([web.patch("/{key}", remembered.write), web.get("/{key}", remembered.watch)])
    async with TestServer(app, shutdown_timeout=0.1) as server:
        remembered.url = str(server.make_url("")).rstrip("/")
        yield remembered


@pytest.fixture
async def door(memory):
    proxy = Proxy(memory.url)
    await asyncio.to_thread(proxy.start)
    yield proxy
    await asyncio.to_thread(proxy.stop)


@pytest.fixture
async def caller(door):
    async with aiohttp.ClientSession(door.url) as session:
        yield session


async def write(caller, text):
    async with caller.patch("/a?manager=x", data=text) as answer:
        return answer.status, await answer.json()


async def test_passes_everything(caller, door):
    """Bodies, statuses and streams go through as they are, and writes are counted."""
    async with caller.get("/a", params={"watch": "1"}) as watch:
        assert await write(caller, "one") == (201, {"kept": 1})
        assert await watch.content.readline() == b"one\n"
    assert [(own.method, own.path, own.status) for own in door.writes] == [("PATCH", "/a", 201)]


@pytest.mark.parametrize("allowed", [0, 1, 2])
async def test_shuts_after_so_many_writes(caller, door, memory, allowed):
    """Exactly so many of writes sent at once get through; then everything is cut, and stays so until it is opened."""
    async with caller.get("/a", params={"watch": "1"}) as watch:
        door.shut_after(allowed)
        answers = await asyncio.gather(
            *(write(caller, str(number)) for number in range(4)), return_exceptions=True
        )
        await asyncio.to_thread(door.until_shut, 5)
        with pytest.raises(aiohttp.ClientError):
            while True:
                assert await watch.content.readline()
    assert len(memory.kept) == allowed
    assert sum(isinstance(own, aiohttp.ClientError) for own in answers) == 4 - max(0, allowed - 1)
    with pytest.raises(aiohttp.ClientError):
        await write(caller, "more")

    door.open()
    assert (await write(caller, "more"))[0] == 201


async def test_who_was_cut_writes_no_more(caller, door, memory, monkeypatch):
    """What waited for its turn when the door shut is not let through by the next count, nor counted in it."""
    cut = door._cut

    async def and_count_again():
        await cut()
        door.shut_after(3)  # before anybody who waits wakes up

    monkeypatch.setattr(door, "_cut", and_count_again)
    door.shut_after(1)
    async with memory.news:  # the first is not answered before all have come
        waiting = [asyncio.create_task(write(caller, f"write-{number}")) for number in range(6)]
        while len(door._tasks) < len(waiting):
            await asyncio.sleep(0)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert all(isinstance(own, aiohttp.ClientError) for own in outcomes)
    assert len(memory.kept) == 1
    assert await write(caller, "later") == (201, {"kept": 2})


async def test_holds_after_so_many_writes(caller, door, memory):
    """Writes beyond the allowed ones wait at the door, reads do not, and all go through when it is opened."""
    door.hold_after(1)
    tasks = [asyncio.create_task(write(caller, str(number))) for number in range(3)]
    await asyncio.to_thread(door.until_held, 1, 5)
    async with caller.get("/a", params={"watch": "1"}) as watch:
        assert await watch.content.readline()
    assert len(memory.kept) == 1

    door.open()
    assert {status for status, _ in await asyncio.gather(*tasks)} == {201}


async def test_cuts_and_expires_watches(caller, door):
    """A watch can be cut in the middle, and the next ones be told that they come too late."""
    async with caller.get("/a", params={"watch": "1"}) as watch:
        door.cut()
        with pytest.raises(aiohttp.ClientError):
            await watch.content.readline()
    door.expire(1)
    async with caller.get("/a", params={"watch": "1"}) as late:
        assert (late.status, json.loads(await late.text())["code"]) == (410, 410)
    assert door.expiring == 0


async def test_deafens_what_is_open(caller, door):
    """A watch that was open brings nothing more, not even its end, and stands; a later one brings everything."""
    async with caller.get("/a", params={"watch": "1"}) as deaf:
        await write(caller, "one")
        assert await deaf.content.readline() == b"one\n"
        door.deafen("/a")
        await write(caller, "two")
        async with caller.get("/a", params={"watch": "1"}) as other:
            assert [await other.content.readline() for _ in range(2)] == [b"one\n", b"two\n"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(deaf.content.readline(), 0.2)


async def test_bars_one_path(caller, door):
    """One path is refused to whoever reads it, and what was open is cut; another path, and writes, go through."""
    async with caller.get("/a", params={"watch": "1"}) as watch:
        await asyncio.to_thread(door.bar, "/a")
        with pytest.raises(aiohttp.ClientError):
            await watch.content.readline()
    async with caller.get("/a") as refused:
        assert (refused.status, json.loads(await refused.text())["code"]) == (403, 403)
    assert await write(caller, "one") == (201, {"kept": 1})
    async with caller.get("/b", params={"watch": "1"}) as other:
        assert other.status == 200
    door.open()
    async with caller.get("/a", params={"watch": "1"}) as again:
        assert again.status == 200


async def test_says_what_never_came(door):
    """A wait that is in vain tells what went through."""
    with pytest.raises(NeverCameError, match=r"the door was not shut within 0\.01 s; went through: nothing"):
        door.until_shut(0.01)
