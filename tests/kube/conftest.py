"""A running fake API server and a client of it, configured as in life: by a kubeconfig."""

from pathlib import Path

import pytest

from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from tests.kube.support.api_server import ApiServer
from tests.kube.support.authority import Authority
from tests.kube.support.kubeconfig import kubeconfig


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(api: ApiServer, tmp_path: Path):
    async with Client(await find_access(kubeconfig(tmp_path, api.url))) as made:
        yield made


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secure(authority: Authority):
    server = await ApiServer().start(ssl=authority.server_context())
    server.put("a")
    yield server
    await server.stop()
