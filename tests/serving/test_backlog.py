"""The queue of connections that wait to be taken."""

import socket
from contextlib import ExitStack

import pytest
from aiohttp import web

from scheduler.serving.server import serve

MANY = 256


@pytest.mark.parametrize("backlog", [512, 4096])
async def test_many_connections_in_one_moment_find_room(backlog):
    """They are made at once even while nobody takes them: none waits for the kernel to try again after a second."""
    async with serve(web.Application(), "127.0.0.1", 0, backlog=backlog) as port:
        with ExitStack() as stack:
            for _ in range(MANY):  # synchronous: the loop that would take them stands still
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.9))
