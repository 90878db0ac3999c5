"""The rendezvous as an application: who asks, how long it may take, and one counter and one line a refusal.

Lives here: what surrounds every route. Never here: what a route answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiohttp import web

from scheduler.elastic.rendezvous.worker_messages import ORDINARY, Failure, Reason, Refused, encode
from scheduler.elastic.rendezvous.worker_requests import Caller, Door
from scheduler.elastic.rendezvous.worker_routes import ROUTES, Counter, Route
from scheduler.serving.listener import authenticated
from scheduler.settings import RendezvousServer
from scheduler.telemetry.elastic_metrics import ElasticMetrics

SPARE: Final = 15.0
"""Seconds that a request may take beyond the wait that it asked for: its body, a review, the desk."""

WAITING: Final = frozenset(route.name for route in ROUTES if route.waits)

_log = structlog.get_logger("rendezvous")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_CALLER: Final = web.RequestKey("caller", Caller)


def build_app(
    counter: Counter,
    door: Door,
    bounds: RendezvousServer,
    metrics: ElasticMetrics,
    clock: Callable[[], float],
) -> web.Application:
    """The application that answers the routes of the table. clock: seconds since the epoch."""
    app = web.Application(middlewares=[_observed(metrics)], client_max_size=bounds.body_limit)
    for route in ROUTES:
        handler = _handler(route, counter, door, bounds.wait + SPARE, clock)
        app.router.add_route(route.method, route.path, handler, name=route.name)
    return app


def _handler(
    route: Route, counter: Counter, door: Door, limit: float, clock: Callable[[], float]
) -> _Handler:
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


def _observed(metrics: ElasticMetrics) -> Any:
    """The middleware that tells every failure as JSON, and counts."""

    @web.middleware
    async def observe(request: web.Request, handler: _Handler) -> web.StreamResponse:
        name = request.match_info.route.name or "none"
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            response = await handler(request)
        except ConnectionError:
            raise  # nobody is left to answer
        except Exception as error:  # noqa: BLE001 - whatever it was, it is told as JSON, and in the log
            refused = _refused(error)
            _say(metrics, request, name, refused)
            response = _failed(request, refused)
        if name not in WAITING:
            metrics.request_duration_seconds.labels(name).observe(loop.time() - began)
        metrics.requests_total.labels(name, str(response.status)).inc()
        response.headers["Server"] = "gangwright"
        response.headers["Cache-Control"] = "no-store"
        return response

    return observe


def _say(metrics: ElasticMetrics, request: web.Request, route: str, refused: Refused) -> None:
    """One line, without the message: that may show what was sent."""
    reason = refused.reason
    if reason in ORDINARY:
        return
    metrics.refusals_total.labels(reason.value).inc()
    caller = request.get(_CALLER)
    pod = f"{caller.worker.job} {caller.pod}" if caller else ""
    _log.warning(
        "refused", route=route, reason=reason.value, pod=pod, peer=request.remote, kind=(route, reason.value)
    )


def _failed(request: web.Request, refused: Refused) -> web.Response:
    body = encode({"error": Failure(refused.reason.value, str(refused))})
    response = web.Response(
        body=body, status=refused.status, headers=refused.headers, content_type="application/json"
    )
    if not request.content.at_eof():
        response.force_close()
    return response


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
            return Refused(Reason.BROKEN, "gangwright failed; its log says why")
