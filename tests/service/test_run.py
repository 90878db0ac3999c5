"""What `gangwright serve` is put together with."""

import asyncio
from pathlib import Path

from scheduler.kube.access import find_access
from scheduler.kube.actions import ANNOUNCERS
from scheduler.kube.client import SPARE, Client
from scheduler.kube.lease import LeaseName
from scheduler.objects.resources import RESOURCES
from scheduler.service import run
from scheduler.settings import Api, Settings
from tests.kube.kubeconfig import kubeconfig

MOST = 32
"""Writes at a time that the setting allows at most."""


async def test_the_lease_is_looked_at_while_all_writes_are_under_way(tmp_path: Path) -> None:
    """An API server that answers nothing has all watches and looks, writes and notices, and hears of the Lease too."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = Settings(api=Api(concurrent_writes=MOST))
    lease = LeaseName(settings.lease.namespace, settings.lease.name).path
    busy = MOST + ANNOUNCERS + SPARE
    paths = [*(row.path for row in RESOURCES), *(f"/busy/{number}" for number in range(busy))]
    access = await find_access(kubeconfig(tmp_path, url))
    async with server, Client(access, connections=run.connections(settings)) as client:
        calls = [asyncio.create_task(client.request("GET", path)) for path in [*paths, lease]]
        async with asyncio.timeout(5):
            while len(heard) < len(calls):
                await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    assert any(line.split()[1] == lease.encode() for line in heard)
