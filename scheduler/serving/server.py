"""An application on a port: TLS, bounds on connections, and a shutdown that waits for calls under way.

Lives here: everything between a socket and an application. Never here: a route.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from prometheus_client import Counter, Gauge

from scheduler.errors import SettingsError
from scheduler.serving.listener import HEAD_LIMIT, STRANGER_LIMIT, Listener, connection_of
from scheduler.serving.middleware import Handler
from scheduler.serving.tls import Identity
from scheduler.settings import TLSServer

LINGER: Final = 1.0
"""Seconds that the rest of a body is read and discarded after an early answer, so that the answer arrives."""

DRAIN: Final = 10.0
"""Seconds for calls under way to end at shutdown."""

BACKLOG: Final = 100
"""Connections that may wait to be accepted. This is asyncio's default, plenty for clients with lasting connections."""

FIELDS: Final = 64
"""Header fields of a request. A browser sends about 20, a proxy adds a few. FIELD and TOKEN_FIELD bound their size."""

GROUP_FIELDS: Final = 2048
"""The same for requests that the API server forwards: it sends one field for each group of the user."""

FIELD: Final = 8190
"""Bytes of a header field if no token is required. This is aiohttp's default."""

TOKEN_FIELD: Final = 2**15
"""Bytes of a header field if a token is required: twice `token_reviews.LONGEST_TOKEN`, for the text around it. The
bytes of all strangers are also bounded together."""

_log = structlog.get_logger("serving")


class Counters(Protocol):
    """The metrics that count connections."""

    connections: Gauge
    connections_closed_total: Counter


@asynccontextmanager
async def serve(
    app: web.Application,
    host: str,
    port: int,
    *,
    section: str = "verbs",
    settings: TLSServer | None = None,
    metrics: Counters | None = None,
    head_limit: float = HEAD_LIMIT,
    anonymous: bool = False,
    credentials: bool = False,
    fields: int = FIELDS,
    backlog: int = BACKLOG,
    ends: Gauge | None = None,
) -> AsyncIterator[int]:
    """Serve the application while the context lasts. Yields the port, which the kernel chose if `port` is 0.

    section: the section of the settings, named in errors. settings: bounds and TLS; no TLS by default. metrics: counts
    connections. anonymous: a client certificate is optional, but must be valid if the client shows one. credentials:
    the application requires a token or certificate, and calls `listener.authenticated` for each valid one. A connection
    that shows none in time is closed. fields: maximum header fields of a request. backlog: connections that may wait to
    be accepted; the kernel may allow fewer. ends: the metric of when certificates expire.
    Raises SettingsError if the address cannot be listened on, or the certificates cannot be used.
    """
    own = settings or TLSServer()
    app.middlewares.insert(0, _on_connection)
    server_logger.addFilter(_is_ours)
    identity = Identity(own, section=section, anonymous=anonymous) if own.cert else None
    if identity and ends:
        identity.tell(ends)
    runner = web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        keepalive_timeout=own.keep_alive,
        auto_decompress=False,
        lingering_time=LINGER,
        shutdown_timeout=DRAIN,
        max_headers=fields,
        max_field_size=TOKEN_FIELD if credentials else FIELD,
    )
    await runner.setup()
    try:
        sockets = _listening(section, host, port, backlog)
        listener = _listener(runner, own, identity, metrics, head_limit, credentials=credentials)
        accepting = [asyncio.create_task(listener.run(one), name="accepting") for one in sockets]
        try:
            yield sockets[0].getsockname()[1]
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            for one in sockets:
                one.close()
            listener.close()
            if identity and ends:
                identity.untell(ends)
    finally:
        await runner.cleanup()


def listening(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Sockets to accept from, all on one port. host: a name stands for all of its addresses, the empty text for every
    address of both families. Raises OSError.
    """
    if not host and socket.has_dualstack_ipv6():
        whole = socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        whole.setblocking(False)
        return [whole]
    found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)  # noqa: S104 - as the settings say
    own: list[socket.socket] = []
    try:
        for family, *_, place in dict.fromkeys(found):
            same = own[0].getsockname()[1] if own else port
            own.append(socket.create_server((str(place[0]), same), family=family, backlog=backlog))
            own[-1].setblocking(False)
    except OSError:
        for one in own:
            one.close()
        raise
    return own


def url(host: str, port: int, *, tls: bool = False) -> str:
    """The URL of a server. host: as in the settings. Empty means every address, which includes loopback."""
    place = f"[{host}]" if ":" in host else host or "127.0.0.1"
    return f"{'https' if tls else 'http'}://{place}:{port}"


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether aiohttp may log this record. Invalid HTTP is the sender's mistake, so it is logged as a warning instead.

    The text of the error is omitted: it quotes the received bytes, which may hold a token.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        _log.warning("not HTTP", error=type(error).__name__)
        return False
    return True


def _listener(
    runner: web.AppRunner,
    settings: TLSServer,
    identity: Identity | None,
    metrics: Counters | None,
    head_limit: float,
    *,
    credentials: bool,
) -> Listener:
    def make() -> asyncio.Protocol:
        assert runner.server is not None  # noqa: S101 - the runner is set up
        return runner.server()

    def closed(cause: str) -> None:
        if metrics:
            metrics.connections_closed_total.labels(cause).inc()
        _log.warning("connection closed", cause=cause, kind=("connection closed", cause))

    listener = Listener(
        make,
        most=settings.connections,
        identity=identity,
        credentials=credentials,
        stranger_limit=STRANGER_LIMIT if credentials else settings.keep_alive,
        head_limit=head_limit,
        closed=closed,
    )
    if metrics:
        metrics.connections.set_function(lambda: len(listener.open))
    return listener


def _listening(section: str, host: str, port: int, backlog: int) -> list[socket.socket]:
    try:
        return listening(host, port, backlog)
    except OSError as error:
        place = f"{host or '*'}:{port}"
        raise SettingsError(f"{section}.port", place, f"cannot listen on it: {error.strerror}") from None


@web.middleware
async def _on_connection(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell the connection when a request begins and ends."""
    connection = connection_of(request)
    if connection is None:
        return await handler(request)
    connection.begin(request)
    well = False
    try:
        response = await handler(request)
        well = response.status < 400
        return response
    finally:
        connection.finish(well=well)
