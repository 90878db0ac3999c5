"""The rendezvous as an application: who asks, how long it may take, and one counter and one line a refusal.

Lives here: what surrounds every route. Never here: what a route answers.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from aiohttp import web

from scheduler.elastic.rendezvous.worker_messages import ORDINARY, Failure, Reason, Refused, encode
from scheduler.elastic.rendezvous.worker_requests import Caller, Door
from scheduler.elastic.rendezvous.worker_routes import ROUTES, Counter, Route
from scheduler.serving.listener import authenticated
from scheduler.serving.middleware import BROKEN, Failed, Handler, observed, route_of
from scheduler.settings import RendezvousServer
from scheduler.telemetry.elastic_metrics import ElasticMetrics

SPARE: Final = 15.0
"""Seconds that a request may take beyond the wait that it asked for: its body, a review, the desk."""

WAITING: Final = frozenset(route.name for route in ROUTES if route.waits)

_log = structlog.get_logger("rendezvous")
_CALLER: Final = web.RequestKey("caller", Caller)


def build_app(
    counter: Counter,
    door: Door,
    bounds: RendezvousServer,
    metrics: ElasticMetrics,
    clock: Callable[[], float],
) -> web.Application:
    """The application that answers the routes of the table. clock: seconds since the epoch."""
    observe = observed(
        partial(_failed, metrics),
        headers={"Server": "gangwright", "Cache-Control": "no-store"},
        requests=metrics.requests_total,
        durations=metrics.request_duration_seconds,
        untimed=WAITING,
    )
    app = web.Application(middlewares=[observe], client_max_size=bounds.body_limit)
    for route in ROUTES:
        handler = _handler(route, counter, door, bounds.wait + SPARE, clock)
        app.router.add_route(route.method, route.path, handler, name=route.name)
    return app


def _handler(route: Route, counter: Counter, door: Door, limit: float, clock: Callable[[], float]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        async with asyncio.timeout(limit):
            caller = await door.caller(request, clock())
            request[_CALLER] = caller
            authenticated(request)
            # A body that is not read would be kept for as long as the question waits.
            if request.method == "GET" and request.can_read_body:
                raise Refused(Reason.MALFORMED, "the body of a GET: leave it out")
            return await route.answer(counter, request, caller)

    return handle


def _failed(metrics: ElasticMetrics, request: web.Request, error: Exception) -> Failed:
    """The answer; one line, without the message, which may show what was sent."""
    refused = _refused(error)
    reason, route = refused.reason, route_of(request)
    if reason not in ORDINARY:
        metrics.refusals_total.labels(reason.value).inc()
        caller = request.get(_CALLER)
        pod = f"{caller.worker.job} {caller.pod}" if caller else ""
        kind = (route, reason.value)
        _log.warning("refused", route=route, reason=reason.value, pod=pod, peer=request.remote, kind=kind)
    body = encode({"error": Failure(reason.value, str(refused))})
    return Failed(refused.status, body, refused.headers)


def _refused(error: Exception) -> Refused:
    match error:
        case Refused():
            return error
        case TimeoutError():
            return Refused(Reason.SLOW, "there was no answer in time; try again in a moment")
        case web.HTTPNotFound():
            return Refused(Reason.NO_PATH, "no such path")
        case web.HTTPMethodNotAllowed():
            return Refused(Reason.NO_METHOD, f"allowed here: {', '.join(sorted(error.allowed_methods))}")
        case web.HTTPException():
            return Refused(Reason.MALFORMED, error.reason)
        case _:
            _log.error("request failed", exc_info=error)
            return Refused(Reason.BROKEN, BROKEN)
