"""The rendezvous as a whole: certificates, tokens, values and routes on one port.

Lives here: the assembly of its parts, and what is common to all routes: authentication, a time limit, and a counter
and a log line per rejection. Never here: the answer of a route. Only the master calls this, and provides the
`WorkerService`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from scheduler.clock import steady
from scheduler.elastic.rendezvous.kv_store import Values
from scheduler.elastic.rendezvous.token_auth import Tokens
from scheduler.elastic.rendezvous.worker_messages import ORDINARY, Failure, Reason, Refused, encode
from scheduler.elastic.rendezvous.worker_requests import Authenticator, Caller, Waits, WorkerService
from scheduler.elastic.rendezvous.worker_routes import ROUTES, Route, WorkerRoutes
from scheduler.errors import SettingsError
from scheduler.serving.certificate_store import Files, Secret, certified
from scheduler.serving.listener import authenticated
from scheduler.serving.middleware import BROKEN, Failed, Handler, observed, route_of
from scheduler.serving.server import serve, url
from scheduler.serving.tls import first_end, unusable
from scheduler.serving.token_reviews import Calls
from scheduler.settings import RendezvousServer
from scheduler.telemetry.elastic_metrics import ElasticMetrics

SPARE: Final = 15.0
"""Seconds that a request may take in addition to the wait that it requested: its body, a review, the master."""

_log = structlog.get_logger("rendezvous")
_CALLER: Final = web.RequestKey("caller", Caller)


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """An open rendezvous.

    address: the URL that workers receive, `https://HOST:PORT`. port: the port on which it listens. authority: the CA
    certificate, PEM, with which workers verify it. values: the values of the rounds of all jobs.
    """

    address: str
    port: int
    authority: str
    values: Values


@asynccontextmanager
async def rendezvous(
    service: WorkerService,
    calls: Calls,
    settings: RendezvousServer,
    metrics: ElasticMetrics,
    *,
    namespace: str,
    clock: Callable[[], float] = steady,
) -> AsyncIterator[Rendezvous]:
    """Serve the workers while the context lasts.

    calls: the API server. namespace: the namespace of the master. clock: seconds since the epoch. Raises SettingsError
    if the address or the certificates cannot be used, and KubeError if the Secret of the certificates can neither be
    read nor created.
    """
    tokens = Tokens(calls, settings, clock, lambda answer: metrics.token_reviews_total.labels(answer).inc())
    values = Values(keys=settings.keys, size=settings.round_limit, total=settings.values_limit)
    waits = Waits(settings.waits)
    metrics.waits.set_function(lambda: waits.count)
    metrics.values.set_function(lambda: values.count)
    metrics.values_bytes.set_function(lambda: values.size)
    ends = metrics.certificate_end_timestamp_seconds
    counter, authenticator = WorkerRoutes(service, values, waits, settings), Authenticator(tokens, service)

    def handler(route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            async with asyncio.timeout(settings.wait + SPARE):
                caller = request[_CALLER] = await authenticator.caller(request, clock())
                authenticated(request)
                # An unread body would stay in memory while the request waits.
                if request.method == "GET" and request.can_read_body:
                    raise Refused(Reason.MALFORMED, "a GET must not have a body")
                return await route.answer(counter, request, caller)

        return handle

    async def stop_waits(_app: web.Application) -> None:
        waits.close()  # otherwise a shutdown would wait for them

    observe = observed(
        partial(_failed, metrics),
        headers={"Server": "gangwright", "Cache-Control": "no-store"},
        requests=metrics.requests_total,
        durations=metrics.request_duration_seconds,
        untimed={route.name for route in ROUTES if route.waits},
    )
    app = web.Application(middlewares=[observe], client_max_size=settings.body_limit)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, handler(route), name=route.name)
    app.on_shutdown.append(stop_waits)
    try:
        async with (
            _files(settings, calls, namespace, clock) as (files, authority),
            serve(
                app,
                settings.host,
                settings.port,
                section="rendezvous",
                settings=replace(settings, cert=files.cert, key=files.key),
                metrics=metrics,
                credentials=True,
                backlog=settings.backlog,
                ends=ends,
            ) as port,
        ):
            with suppress(ValueError):  # of a kind that only workers can read
                ends.labels("rendezvous", "ca").set(first_end(authority.encode()))
            yield Rendezvous(url(settings.names[0], port, tls=True), port, authority, values)
    finally:
        await tokens.close()


@asynccontextmanager
async def _files(
    settings: RendezvousServer, calls: Calls, namespace: str, clock: Callable[[], float]
) -> AsyncIterator[tuple[Files, str]]:
    """The configured certificate, else the one in the Secret of the settings; and its CA, PEM."""
    if settings.cert:
        yield Files(settings.cert, settings.key, None), _authority(settings.ca)
        return
    store = Secret(calls, namespace, settings.secret, section="rendezvous", owner="gangwright-elastic")
    async with certified(store, settings.names, clock) as files:
        yield files, _authority(str(files.authority))


def _authority(place: str) -> str:
    try:
        text = Path(place).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise SettingsError("rendezvous.ca", place, unusable(error)) from None
    if "BEGIN CERTIFICATE" not in text:
        raise SettingsError("rendezvous.ca", place, "must contain a PEM certificate")
    return text


def _failed(metrics: ElasticMetrics, request: web.Request, error: Exception) -> Failed:
    """The answer. Logs one line, without the message, which may contain what the worker sent."""
    refused = _refused(error)
    reason, route = refused.reason, route_of(request)
    if reason not in ORDINARY:
        metrics.refusals_total.labels(reason.value).inc()
        caller = request.get(_CALLER)
        pod = f"{caller.worker.job} {caller.pod}" if caller else ""
        kind = (route, reason.value)
        _log.warning("rejected", route=route, reason=reason.value, pod=pod, peer=request.remote, kind=kind)
    body = encode({"error": Failure(reason.value, str(refused))})
    return Failed(refused.status, body, refused.headers)


def _refused(error: Exception) -> Refused:
    match error:
        case Refused():
            return error
        case TimeoutError():
            return Refused(Reason.SLOW, "no answer in time. Try again in a moment")
        case web.HTTPNotFound():
            return Refused(Reason.NO_PATH, "path not found")
        case web.HTTPMethodNotAllowed():
            return Refused(Reason.NO_METHOD, f"allowed methods: {', '.join(sorted(error.allowed_methods))}")
        case web.HTTPException():
            return Refused(Reason.MALFORMED, error.reason)
        case _:
            _log.error("request failed", exc_info=error)
            return Refused(Reason.BROKEN, BROKEN)
