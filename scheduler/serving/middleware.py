"""The middleware of every HTTP edge: failures become JSON, and every request is counted and timed.

Lives here: the mechanism. Never here: the status or text of a failure; the edges differ in that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, Final, NamedTuple

from aiohttp import web
from prometheus_client import Counter, Histogram

BROKEN: Final = "Gangwright failed; see its log for the reason"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Failed(NamedTuple):
    """The answer to a request that failed. body: JSON."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def observed(
    failed: Callable[[web.Request, Exception], Failed],
    *,
    headers: Mapping[str, str],
    requests: Counter,
    durations: Histogram,
    untimed: Container[str] = (),
    told: Callable[[web.Request, int, float], None] = lambda _request, _status, _took: None,
) -> Any:
    """The middleware. headers: added to every answer that does not set them. untimed: routes whose duration is
    meaningless. told: receives every answer's request, status and seconds.
    """

    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            response = await handler(request)
        except ConnectionError:
            raise  # no client is left to answer
        except Exception as error:  # noqa: BLE001 - every failure is answered as JSON and logged
            failure = failed(request, error)
            response = closing(
                request,
                web.Response(
                    body=failure.body,
                    status=failure.status,
                    headers=failure.headers,
                    content_type="application/json",
                ),
            )
        for name, text in headers.items():
            response.headers.setdefault(name, text)
        route, took = route_of(request), loop.time() - began
        if route not in untimed:
            durations.labels(route).observe(took)
        requests.labels(route, str(response.status)).inc()
        told(request, response.status, took)
        return response

    return observe


def route_of(request: web.Request) -> str:
    """The route's name up to a colon, so that routes may share one; "none" for an unknown path."""
    return (request.match_info.route.name or "none").partition(":")[0]


def closing(request: web.Request, response: web.Response) -> web.Response:
    """The response. The connection is closed after it if the body was not read to its end."""
    if not request.content.at_eof():
        response.force_close()
    return response
