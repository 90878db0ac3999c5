"""What happened, seen by a watch of the bench's own that goes on over broken connections.

Two watches, so that looking costs every road the same: one sees nothing but binds (the API server filters), the
other all pods, but only until the first of them is written to.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Final

from bench.load.work import NAMESPACE
from bench.plane import Client, watches, where
from bench.plane.watches import Binds

BOUND_ONLY: Final = "spec.nodeName!="
PODS: Final = where("pods", NAMESPACE)


@asynccontextmanager
async def binds(api: Client) -> AsyncIterator[Binds]:
    """Every bind from now on, for as long as the block runs."""
    seen = Binds()
    async with _beside(seen.follow(watches.changes(api, PODS, fields=BOUND_ONLY))):
        yield seen


@asynccontextmanager
async def first_write(api: Client, pods: int) -> AsyncIterator["asyncio.Future[float]"]:
    """When, on the event loop's clock, the first of the `pods` pods is written to, all of which exist."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[float] = loop.create_future()
    listed = asyncio.Event()

    async def follow() -> None:
        told = 0
        async for kind, _ in watches.changes(api, PODS):
            told += 1
            if told >= pods:
                listed.set()
            if kind == "MODIFIED":
                written.set_result(loop.time())
                return

    async with _beside(follow()):
        await listed.wait()
        yield written


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
