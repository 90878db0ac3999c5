"""A connection for commands with one or two requests, based on the standard library, without an event loop.

Lives here: sockets, TLS and proxy of such a connection, and its raw answers. Never here: the meaning of an answer, or a
watch. Why not `client`: importing aiohttp takes longer than everything else in such a command.
"""

import base64
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from yarl import URL

import scheduler
from scheduler import errors
from scheduler.errors import SettingsError
from scheduler.kube.api_errors import read_status, refusal
from scheduler.kube.credentials import Access

CONNECT_WITHIN: Final = 2.0
"""Seconds for a TCP and TLS handshake. A user waits for it, and an unused address does not answer later either."""

ANSWER_WITHIN: Final = 30.0
"""Seconds of silence after which a request fails."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class HttpConnection:
    """Requests to one server, one after the other. A connection that the server closed is opened again.

    headers: of every request. proxy: an http URL. Raises SettingsError for a proxy with another scheme.
    """

    def __init__(
        self,
        url: URL,
        headers: Mapping[str, str],
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
    ) -> None:
        self._headers = {"User-Agent": f"gangwright/{scheduler.__version__}", "Accept": "application/json"}
        self._headers |= headers
        self._before = url.raw_path.rstrip("/")
        through = _checked(proxy) if proxy else None
        self._socket = _Socket(url, through, tls, server_name)
        if through is not None and tls is None:  # the proxy reads the whole address and forwards the request
            self._before = f"http://{url.raw_authority}{self._before}"
            self._headers |= _authorization(through)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """The answer, regardless of its status. Raises Unreachable if there is none."""
        call = f"{method} {path}"
        target = f"{self._before}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        try:
            self._socket.request(method, target, body=body, headers=headers)
            response = self._socket.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._socket.close()
            raise errors.Unreachable(call, f"no answer ({type(error).__name__}: {error})") from error
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, text)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


class _Socket(http.client.HTTPConnection):
    """The connection itself. It has a separate TLS server name, which http.client does not support."""

    def __init__(
        self, url: URL, proxy: URL | None, tls: ssl.SSLContext | None, server_name: str | None
    ) -> None:
        first = proxy or url
        self.default_port = 80 if tls is None else 443
        super().__init__(first.raw_host or "", first.port, timeout=CONNECT_WITHIN)
        if proxy is not None and tls is not None:
            self.set_tunnel(url.raw_host or "", url.port, dict(_authorization(proxy)))
        self._tls = tls
        self._name = server_name or url.raw_host

    def connect(self) -> None:
        super().connect()
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)
        self.sock.settimeout(ANSWER_WITHIN)


async def api_server(own: Access) -> HttpConnection:
    """A connection to the API server with these credentials. Raises SettingsError."""
    headers = await own.headers()
    return HttpConnection(own.url, headers, tls=own.tls, server_name=own.server_name, proxy=own.proxy)


def refused(call: str, answer: Answer) -> errors.KubeError:
    """The error for an unsuccessful answer of the API server."""
    return refusal(call, answer.status, read_status(answer.body), answer.headers.get("retry-after"))


def _checked(proxy: str) -> URL:
    url = URL(proxy)
    if url.scheme != "http" or not url.host:
        raise SettingsError("proxy", proxy.rpartition("@")[2], "must be an http URL")
    return url


def _authorization(proxy: URL) -> Mapping[str, str]:
    """The proxy's credentials, if its URL has any."""
    if not proxy.user:
        return {}
    pair = f"{proxy.user}:{proxy.password or ''}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}
