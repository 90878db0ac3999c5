"""What `gangwright elastic` is put together with."""

import asyncio
from pathlib import Path

from scheduler.elastic.master import run
from scheduler.elastic.master.counting import Counting
from scheduler.elastic.master.master import Master
from scheduler.kube.access import find_access
from scheduler.kube.client import Client
from scheduler.kube.lease import LeaseName
from scheduler.settings import Settings
from scheduler.telemetry.elastic import ElasticMetrics
from tests.kube.kubeconfig import kubeconfig

NAMESPACES = [f"team-{number}" for number in range(50)]


async def test_watches_of_many_namespaces_leave_room_for_the_lease(tmp_path: Path) -> None:
    """An API server that answers nothing has the watches of fifty namespaces, and hears of the Lease too."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    master = Master(Counting(ElasticMetrics(), ()), namespaces=NAMESPACES)
    own = Settings().elastic
    lease = LeaseName(own.lease_namespace, own.lease_name).path
    paths = [resource.path for resource, _ in master.watches().values()]
    access = await find_access(kubeconfig(tmp_path, url))
    async with server, Client(access, connections=run.connections(master)) as client:
        calls = [asyncio.create_task(client.request("GET", path)) for path in [*paths, lease]]
        async with asyncio.timeout(5):
            while len(heard) < len(calls):
                await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    assert any(line.split()[1] == lease.encode() for line in heard)
