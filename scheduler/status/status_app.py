"""The status API over HTTP: authentication, rate and size limits, headers, one line and one counter per request.

Lives here: everything between a socket and `endpoints`. Never here: the content of an answer.

Why every POST must have the JSON content type, even with an empty object: a browser with a client certificate presents
it for any page. But before it sends JSON from a foreign page it makes a preflight request, which this server never
grants.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import structlog
from aiohttp import web

from scheduler.errors import KubeError, shortened
from scheduler.serving.listener import authenticated
from scheduler.serving.middleware import BROKEN, Failed, Handler, observed, route_of
from scheduler.serving.rate_limit import Buckets
from scheduler.serving.token_reviews import Unknown, token
from scheduler.status import schemas
from scheduler.status.api_group import API_PREFIX, REPLICA, Standing
from scheduler.status.authorization import Reviews, Subject, holder, tenant
from scheduler.status.endpoints import Ask, Endpoints
from scheduler.status.openapi import description
from scheduler.status.operator_api import AWAY, SLOW, OperatorError, Problem, too_often, unknown
from scheduler.status.page import add_page
from scheduler.status.request_headers import RequestHeaders
from scheduler.status.routes import PATH, REMOVED, ROUTES, Route, Word
from scheduler.telemetry.metrics import Metrics

BODY_LIMIT: Final = 16 * 2**10
"""Maximum bytes. A pod takes about two thousand, and identical pods are sent once."""

LONGEST: Final = 15.0
"""Seconds for a whole request, including its body and all reviews."""

BURST, RATE = 60, 10
"""Requests of one tenant: at once, and per second. The page makes three in three seconds, and eight more in a minute."""

STRANGERS_BURST, STRANGERS_RATE = 20, 2
"""New tokens from one address, at once and per second: each costs the API server a review."""

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "gangwright",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer. The page loads only its own files."""

DISCOVERY: Final = "discovery"
"""The routes with which the API server checks whether this server is available, and what it serves."""

OPEN: Final = frozenset({"page", "description", DISCOVERY})
"""Routes without data of the cluster. Every client that reaches the port may read them."""

_log = structlog.get_logger("status")
_encode: Final = msgspec.json.Encoder().encode
_SUBJECT: Final = web.RequestKey("subject", Subject)


Identify: TypeAlias = Callable[[web.Request, float], Awaitable[Subject]]
"""Identifies the caller. Raises Problem for an unknown caller, and KubeError if the API server does not answer."""


def build_app(
    answers: Endpoints, identify: Identify, metrics: Metrics, clock: Callable[[], float]
) -> web.Application:
    """The application that answers the routes of the table, /openapi.json, and the page at /.

    clock: seconds since the epoch.
    """
    app = _app(answers, identify, metrics, clock, "")
    for path, text in REMOVED.items():
        app.router.add_post(path, _removed(text), name="removed:" + path.rpartition("/")[2])
    _add_document(app, "/openapi.json", description(), "description")
    add_page(app)
    return app


def build_aggregated_app(
    answers: Endpoints, headers: RequestHeaders, metrics: Metrics, clock: Callable[[], float]
) -> web.Application:
    """The same routes as a group of the Kubernetes API, below `API_PREFIX`, only for the API server.

    headers: the headers in which it names the user.
    """

    async def identify(request: web.Request, _now: float) -> Subject:
        found = headers.subject([(name, value) for name, value in request.headers.items()])
        if found is None:
            raise unknown(f"the API server must name the user in a header: {', '.join(headers.users)}")
        return found

    app = _app(answers, identify, metrics, clock, API_PREFIX)
    # The API server requests this to check availability. None of the routes is an object that clients may list.
    resources = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{API_PREFIX.rpartition('/')[2]}/v1",
        "resources": [],
    }
    _add_document(app, f"{API_PREFIX}/v1", resources, DISCOVERY)

    async def lack(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    for path in ("/apis", "/openapi/v2", "/openapi/v3"):  # requested every minute, and optional
        app.router.add_get(path, lack, name=f"{DISCOVERY}:{path.rpartition('/')[2]}", allow_head=False)
    return app


def bearers(reviews: Reviews) -> Identify:
    """Identifies callers by a bearer token, otherwise by a client certificate."""
    strangers = Buckets(STRANGERS_BURST, STRANGERS_RATE)

    async def identify(request: web.Request, now: float) -> Subject:
        word = token(request)
        if word is None:
            transport = request.transport
            found = holder(transport.get_extra_info("peercert") if transport else None, now)
        else:
            if not reviews.is_known(word):
                _take(strangers, request.remote or "", now)
            found = await reviews.who(word)
        if found is None:
            raise unknown(
                "the token is invalid or expired; sign in again" if word else "a bearer token is required"
            )
        return found

    return identify


def _app(
    answers: Endpoints, identify: Identify, metrics: Metrics, clock: Callable[[], float], prefix: str
) -> web.Application:
    observe = observed(
        _failed,
        headers=HEADERS,
        requests=metrics.status_requests_total,
        durations=metrics.status_duration_seconds,
        told=_say,
    )
    app = web.Application(
        middlewares=[_standing(answers), observe, _known(identify, clock)], client_max_size=BODY_LIMIT
    )
    for route in ROUTES:
        app.router.add_route(route.method, f"{prefix}{route.path}", _handler(route, answers), name=route.name)
    return app


def _add_document(app: web.Application, path: str, document: Any, name: str) -> None:
    told = _encode(document)

    async def show(_request: web.Request) -> web.Response:
        return web.Response(body=told, content_type="application/json")

    app.router.add_get(path, show, name=name, allow_head=False)


def _standing(answers: Endpoints) -> Any:
    """The middleware that adds the state of this replica to every answer.

    A standby replica closes each connection after its answer, so that the next request may reach the active replica.
    The API server keeps its connections, so it then stays with the active one.
    """

    @web.middleware
    async def say(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        standing = answers.standing
        response.headers[REPLICA] = standing
        if standing is Standing.STANDBY:
            response.force_close()
        return response

    return say


def _handler(route: Route, answers: Endpoints) -> Handler:
    decoder = msgspec.json.Decoder(route.body) if route.body is not None else None

    async def handle(request: web.Request) -> web.StreamResponse:
        words = {name: _word(PATH[name], text) for name, text in request.match_info.items()}
        words |= _query(route, request)
        body = await _body(request, decoder) if decoder is not None else None
        answer = await route.handler(answers, Ask(request[_SUBJECT], words, body))
        return _answered(request, _encode(answer))

    return handle


def _removed(text: str) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        raise Problem(410, text)

    return handle


def _word(word: Word, text: str) -> Any:
    try:
        return word.read(text)
    except ValueError as error:
        raise Problem(400, f"{word.name} = {shortened(repr(text), 64)}: {error}") from None


def _query(route: Route, request: web.Request) -> dict[str, Any]:
    known = {word.name: word for word in route.query}
    strange = next((name for name in request.query if name not in known), None)
    if strange is not None:
        remedy = f"supported: {', '.join(known)}" if known else "this route has none"
        raise Problem(400, f"{shortened(repr(strange), 64)}: unsupported query parameter; {remedy}")
    twice = next((name for name in known if len(request.query.getall(name, ())) > 1), None)
    if twice is not None:
        raise Problem(400, f"{twice}: must be specified once")
    return {
        name: _word(word, request.query[name]) if name in request.query else word.default
        for name, word in known.items()
    }


async def _body(request: web.Request, decoder: "msgspec.json.Decoder[Any]") -> Any:
    if request.content_type != "application/json":
        raise Problem(415, "the content type must be application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "the body must not be compressed")
    body = await request.read()
    try:
        return decoder.decode(body)
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    except ValueError as error:  # broken JSON, wrong types, and bytes that are not UTF-8
        raise Problem(400, f"the body is invalid: {shortened(str(error))}") from None


def _answered(request: web.Request, body: bytes) -> web.Response:
    """The answer, or 304 if the caller already has it."""
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    known = request.if_none_match or ()
    if request.method == "GET" and any(one.value in {tag, "*"} for one in known):
        return web.Response(status=304, headers={"ETag": f'"{tag}"'})
    response = web.Response(body=body, content_type="application/json")
    response.etag = tag
    return response


def _known(identify: Identify, clock: Callable[[], float]) -> Any:
    """The middleware that identifies the caller and applies the rate limit."""
    users = Buckets(BURST, RATE)

    @web.middleware
    async def know(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is not None or route_of(request) in OPEN:
            return await handler(request)
        async with asyncio.timeout(LONGEST):
            found = await identify(request, clock())
            authenticated(request)
            _take(users, tenant(found.user), clock())
            request[_SUBJECT] = found
            return await handler(request)

    return know


def _take(buckets: Buckets, source: str, now: float) -> None:
    wait = buckets.take(source, now)
    if wait:
        raise too_often(wait)


def _say(request: web.Request, status: int, took: float) -> None:
    """Log one line with the route, but not the path, whose names and query are private. The API server's frequent
    discovery requests are not logged.
    """
    if route_of(request) == DISCOVERY:
        return
    subject = request.get(_SUBJECT)
    user = subject.user if subject is not None else ""
    acts = request.method != "GET" and status < 400
    route = route_of(request)
    kind = {} if acts else {"kind": (route, status)}  # changes are logged every time
    say = _log.warning if status >= 400 else _log.info
    say("request", route=route, status=status, user=user, ms=round(took * 1000, 3), **kind)


def _failed(_request: web.Request, error: Exception) -> Failed:
    problem = _problem(error)
    return Failed(problem.status, _encode(schemas.Error(str(problem), problem.status)), problem.headers)


def _problem(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case Unknown():
            return unknown(str(error))
        case OperatorError():
            return Problem(409, str(error))
        case KubeError():
            _log.warning("the API server did not answer a review", error=str(error))
            return Problem(503, AWAY, {"Retry-After": "2"})
        case TimeoutError():
            return Problem(503, SLOW, {"Retry-After": "5"})
        case web.HTTPRequestEntityTooLarge():
            return Problem(413, f"the body must be at most {BODY_LIMIT} bytes")
        case web.HTTPException():
            allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            return Problem(error.status, error.reason, allow)
        case _:
            _log.error("request failed", exc_info=error)
            return Problem(500, BROKEN)
