"""An API server that answers nothing: what it hears is what the client has connections for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from tests.kube.support.kubeconfig import kubeconfig


async def heard(folder: Path, paths: Sequence[str], connections: int) -> set[str]:
    """Those of these paths that reach it, when all are asked for at once; TimeoutError when some do not."""
    came: list[str] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.readline()).split()[1].decode())
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    access = await find_access(kubeconfig(folder, url))
    async with server, Client(access, connections=connections) as client:
        calls = [asyncio.create_task(client.request("GET", path)) for path in paths]
        try:
            async with asyncio.timeout(5):
                while len(came) < len(calls):
                    await asyncio.sleep(0.01)
        finally:
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
    return set(came)
