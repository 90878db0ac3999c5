"""What each program has: how its tasks, gauges and probes start and end together."""

import asyncio

import aiohttp
import pytest

from scheduler.serving.component import component
from scheduler.settings import Probes
from scheduler.telemetry.metrics import Metrics

PROBES = Probes(host="127.0.0.1", port=0)


async def test_tasks_gauges_and_probes_last_as_long_as_the_context():
    """They run inside of it, and end with it."""
    ended, refreshed = asyncio.Event(), asyncio.Event()

    async def task():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with (
        component(Metrics(), PROBES, [task()], refresh=lambda _now: refreshed.set(), ready=list) as probed,
        aiohttp.ClientSession() as session,
    ):
        await refreshed.wait()
        async with session.get(f"{probed}/readyz") as answer:
            assert answer.status == 200
        assert not ended.is_set()

    assert ended.is_set()


async def test_a_task_that_fails_ends_the_program():
    """Its error leaves the context, in a group."""

    async def broken():
        raise LookupError

    with pytest.raises(ExceptionGroup) as group:
        async with component(Metrics(), PROBES, [broken()], refresh=lambda _now: None, ready=list):
            await asyncio.Event().wait()

    assert group.group_contains(LookupError)
