"""A connection for one or two questions: over TLS and proxies, to a server that closes it, and to none."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from scheduler.errors import SettingsError, Unreachable
from scheduler.kube.credentials import find_access
from scheduler.kube.http_connection import Answer, api_server, refused
from tests.kube.support.api_server import PODS, ApiServer, Refuse
from tests.kube.support.authority import Authority
from tests.kube.support.kubeconfig import kubeconfig

QUERY = {"limit": "5"}


async def asked(path: str, *targets: str, **more: object) -> list[Answer]:
    """The answers to these questions, over one connection."""
    server = await api_server(await find_access(path))

    def every() -> list[Answer]:
        try:
            return [server.ask("GET", target, **more) for target in targets]
        finally:
            server.close()

    return await asyncio.to_thread(every)


def certified(folder: Path, authority: Authority, url: str, **cluster: str) -> str:
    """The kubeconfig of a user with a client certificate."""
    user = dict(zip(("client-certificate", "client-key"), map(str, authority.issue("us")), strict=True))
    return kubeconfig(folder, url, user, {"certificate-authority": str(authority.file), **cluster})


async def test_a_client_certificate_opens_the_door(
    secure: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    """Mutual TLS, also where the server has another name than its certificate."""
    plain = certified(tmp_path, authority, secure.url)
    (answer,) = await asked(plain, PODS, query=QUERY)
    other = secure.url.replace("127.0.0.1", "localhost")
    named = certified(tmp_path, authority, other, **{"tls-server-name": "127.0.0.1"})
    (again,) = await asked(named, PODS, query=QUERY)
    assert (answer.status, again.status) == (200, 200)
    assert b'"items"' in answer.body
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        await asked(certified(tmp_path, authority, other), PODS, query=QUERY)


async def test_a_connection_is_kept_until_the_server_closes_it(api: ApiServer, tmp_path: Path) -> None:
    """Then the next question opens another. Address, path and token are the kubeconfig's."""
    path = kubeconfig(tmp_path, f"{api.url}/k8s/c-1/", {"token": "t"})
    api.refusals.extend([Refuse(404), Refuse(404, {"Connection": "close"}), Refuse(404)])
    answers = await asked(path, "/a", "/b", "/c")
    first, second, third = api.calls
    assert {call.headers["authorization"] for call in api.calls} == {"Bearer t"}
    assert [call.path for call in api.calls] == ["/k8s/c-1/a", "/k8s/c-1/b", "/k8s/c-1/c"]
    assert first.peer == second.peer != third.peer
    assert str(refused("GET /a", answers[0])) == "GET /a: 404: as scripted"


async def test_no_answer_is_one_error(api: ApiServer, tmp_path: Path) -> None:
    """Where nothing listens, and where the answer breaks off."""
    api.put("a")
    api.broken = 1
    with pytest.raises(Unreachable, match="GET /api/v1/pods: no answer"):
        await asked(kubeconfig(tmp_path, api.url), PODS, query=QUERY)
    with pytest.raises(Unreachable, match="GET /x: no answer"):
        await asked(kubeconfig(tmp_path, "http://127.0.0.1:1"), "/x")


@asynccontextmanager
async def tunnels() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy that connects, its address, and what it was asked."""
    heads: list[bytes] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(2**16):
                writer.write(chunk)
        writer.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = heads[-1].split()[1].decode().rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
        await asyncio.sleep(0)


async def test_a_proxy_is_gone_through(
    api: ApiServer, secure: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    """With its credentials: to a server with TLS by a tunnel, to a plain one by the whole address."""
    basic = f"Basic {base64.b64encode(b'me:secret').decode()}"
    async with tunnels() as (place, heads):
        path = certified(tmp_path, authority, secure.url, **{"proxy-url": f"http://me:secret@{place}"})
        (answer,) = await asked(path, PODS, query=QUERY)
    assert answer.status == 200
    assert basic.encode() in heads[0]
    assert "proxy-authorization" not in secure.calls[0].headers
    proxy = {"proxy-url": api.url.replace("//", "//me:secret@")}
    await asked(kubeconfig(tmp_path, "http://10.0.0.1:1", {}, proxy), "/x")
    assert (api.calls[0].path, api.calls[0].headers["host"]) == ("/x", "10.0.0.1:1")
    assert api.calls[0].headers["proxy-authorization"] == basic


async def test_a_proxy_of_another_kind_is_refused(tmp_path: Path) -> None:
    """With what would be right."""
    proxy = {"proxy-url": "socks5://me:secret@10.0.0.1:1"}
    with pytest.raises(SettingsError, match="must be an http URL") as caught:
        await asked(kubeconfig(tmp_path, "http://10.0.0.1:1", {}, proxy), "/x")
    assert "secret" not in str(caught.value)
