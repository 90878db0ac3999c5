"""Bodies that are read together; the verbs' own tests have the limits of one."""

import asyncio

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from scheduler.serving.body import Bodies, Crowded, TooLarge


def sent(*parts, whole=False):
    """A request of which these parts of the body have come so far."""
    loop = asyncio.get_running_loop()
    connection = BaseProtocol(loop)
    connection.connection_made(asyncio.Transport())
    reader = StreamReader(connection, 2**16, loop=loop)
    for part in parts:
        reader.feed_data(part)
    if whole:
        reader.feed_eof()
    return make_mocked_request("POST", "/", payload=reader)


async def begun(bodies, *parts, source=""):
    """A read that waits for the rest."""
    task = asyncio.create_task(bodies.read(sent(*parts), 100, source))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_one_source_leaves_room_for_others():
    """It holds a quarter of the budget at the most; what it gives up is free again."""
    bodies = Bodies(80)
    first = await begun(bodies, b"a" * 15, source="one")
    with pytest.raises(Crowded):
        await bodies.read(sent(b"a" * 10), 100, "one")
    other = await begun(bodies, b"b" * 15, source="other")
    assert bodies.held == 30

    for task in (first, other):
        task.cancel()
    await asyncio.wait([first, other])
    assert bodies.held == 0
    again = await begun(bodies, b"a" * 20, source="one")
    assert not again.done()
    again.cancel()


async def test_a_body_that_is_here_needs_no_room():
    """Small bodies come with their heads: they are read while others hold all there is."""
    bodies = Bodies(10)
    held = await begun(bodies, b"a" * 10)

    assert await bodies.read(sent(b"small", whole=True), 100, "one") == b"small"
    held.cancel()


async def test_too_large_is_told_as_soon_as_it_is_known():
    """By what the head says, or by what has come."""
    bodies = Bodies(1000)
    with pytest.raises(TooLarge):
        await bodies.read(sent(b"a" * 101), 100)
    assert bodies.held == 0
