"""`gangwright ui`: the status page, opened by one command, with the credentials of any kubeconfig.

Lives here: a server on loopback that serves the files of the page, and passes the requests of the page on to the status
service through the API server. Never here: what the page shows (status.page), or who may see what
(status.authorization).

Requests through the local server use your credentials, so it rejects all requests that do not come from its own page:

* A random token per run is in the fragment of the URL, which browsers do not send. Without it the server only serves the
  public files of the page.
* No other Host: a name on the Internet that resolves to loopback (DNS rebinding) gets no answer.
* No other Origin, and no request that a browser makes for another site.
* Only routes of the table, parameters that match their patterns, and small JSON bodies.
* No header of the browser is passed on to the API server, and never the local token.

A process list shows the URL with which a browser is started. On a shared machine, use `--no-browser`.
"""

import asyncio
import hashlib
import secrets
import signal
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from threading import Thread
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer
from aiohttp import web

from scheduler.cli import screen
from scheduler.cli.options import Context, Kubeconfig, Reach
from scheduler.cli.status_client import MISSING, TRIES, MissingServiceError
from scheduler.errors import GangwrightError, Unauthorized, shortened
from scheduler.kube.client import Client
from scheduler.kube.http_connection import Answer, refused
from scheduler.serving.middleware import route_of
from scheduler.serving.token_reviews import Unknown, token
from scheduler.status import schemas
from scheduler.status.api_group import API_PREFIX, REPLICA, Standing
from scheduler.status.openapi import description
from scheduler.status.operator_api import Problem, unknown
from scheduler.status.page import add_page
from scheduler.status.routes import PATH, ROUTES, Route, Word
from scheduler.status.status_app import BODY_LIMIT, HEADERS, OPEN

HOST: Final = "127.0.0.1"

SAME_SITE: Final = frozenset({"same-origin", "none"})
"""Accepted values of Sec-Fetch-Site: a request of the page itself, or of the user."""

LOGIN: Final = "the API server does not accept your credentials; log in to the cluster again"

_encode: Final = msgspec.json.Encoder().encode

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def ui(
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="URL only, without opening a browser.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Open the status page in a browser.

    The page is served on this machine, until Ctrl-C, to the browser that has the URL. It uses the status service
    through the API server with the credentials of your kubeconfig, and shows what you may see.
    """
    asyncio.run(_serve(Reach(kubeconfig, context), browser=not no_browser))


async def _serve(reach: Reach, *, browser: bool) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises GangwrightError at once if the status service does not answer."""
    async with await reach.client() as client:
        await _asked(client, "GET", "/v1/cluster")  # reports errors before a browser opens
        secret = secrets.token_urlsafe(32)
        runner = web.AppRunner(build_app(client, secret), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        try:
            await web.TCPSite(runner, HOST, 0).start()
            url = f"http://{HOST}:{runner.addresses[0][1]}/#token={secret}"
            screen.line(url)
            screen.note("press Ctrl-C to stop")
            if browser:  # a browser in this terminal blocks its thread until it ends
                Thread(target=webbrowser.open, args=(url,), daemon=True).start()
            await ended.wait()
        finally:
            await runner.cleanup()


def build_app(client: Client, secret: str) -> web.Application:
    """The page, and its requests to the status service through this client. secret: the token of this run."""
    app = web.Application(middlewares=[_guard(secret)], client_max_size=BODY_LIMIT)
    app.on_response_prepare.append(_covered)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, _passed_on(client, route), name=route.name)
    told = _encode(description())

    async def describe(_request: web.Request) -> web.Response:
        return web.Response(body=told, content_type="application/json")

    app.router.add_get("/openapi.json", describe, name="description", allow_head=False)
    add_page(app)
    return app


# ── admission ───────────────────────────────────────────────────────────────────────────────────────────


async def _covered(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of the status service to every answer."""
    for name, text in HEADERS.items():
        if name == "Server" or name not in response.headers:
            response.headers[name] = text


def _guard(secret: str) -> Any:
    """The middleware that admits only the page, and reports errors as JSON."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _admit(request, secret)
            return await handler(request)
        except Problem as problem:
            return _refused(problem)
        except Unknown as error:
            return _refused(unknown(str(error)))
        except GangwrightError as error:
            return _refused(Problem(502, LOGIN if isinstance(error, Unauthorized) else str(error)))
        except web.HTTPException as error:
            return _refused(Problem(error.status, error.reason))

    return guard


def _admit(request: web.Request, secret: str) -> None:
    """Raise Problem for a request that does not come from this server's page."""
    transport = request.transport
    own = f"{HOST}:{transport.get_extra_info('sockname')[1]}" if transport is not None else ""
    if request.headers.getall("Host", []) != [own]:
        raise Problem(403, f"this server answers only for http://{own}")
    origins = set(request.headers.getall("Origin", [])) - {f"http://{own}"}
    if origins or request.headers.get("Sec-Fetch-Site", "none") not in SAME_SITE:
        raise Problem(403, "this server answers only its own page")
    if route_of(request) in OPEN:
        return
    if not secrets.compare_digest(token(request) or "", secret):  # `token` returns only ASCII
        raise unknown("the token in the URL that `gangwright ui` prints is required")


def _refused(problem: Problem) -> web.Response:
    body = _encode(schemas.Error(str(problem), problem.status))
    return web.Response(
        status=problem.status, body=body, headers=problem.headers, content_type="application/json"
    )


# ── passing on ──────────────────────────────────────────────────────────────────────────────────────────


def _passed_on(client: Client, route: Route) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        words = {name: quote(_read(PATH[name], text), safe="") for name, text in request.match_info.items()}
        known = {word.name: word for word in route.query}
        query = {name: _read(known.get(name), text) for name, text in request.query.items()}
        body = await _body(request) if route.body is not None else None
        answer = await _asked(client, route.method, route.path.format_map(words), query, body)
        return _answered(request, answer)

    return handle


def _read(word: Word | None, text: str) -> str:
    """The text, if it is valid for this parameter. Raises Problem."""
    if word is None:
        raise Problem(400, "unknown query parameter; for those of this path, see /openapi.json")
    try:
        word.read(text)
    except ValueError as error:
        raise Problem(400, f"{word.name} = {shortened(repr(text), 64)}: {error}") from None
    if not text.strip("."):  # in a path it would be a relative segment
        raise Problem(400, f"{word.name}: must not consist of dots")
    return text


async def _body(request: web.Request) -> bytes:
    if request.content_type != "application/json" or "Content-Encoding" in request.headers:
        raise Problem(415, "the body must be JSON with the content type application/json")
    return await request.read()


async def _asked(
    client: Client,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> bytes:
    """The answer of the status service, from an active replica if possible.

    Raises Problem if it rejects the request, and another GangwrightError if it does not answer.
    """
    answer = await client.exchange(method, API_PREFIX + path, params=query, body=body)
    for _ in range(TRIES - 1):  # a page with answers of alternating replicas would flicker
        if answer.headers.get(REPLICA.lower()) != Standing.STANDBY:
            break
        answer = await client.exchange(method, API_PREFIX + path, params=query, body=body)
    if answer.status != 200:
        raise _failure(f"{method} {path}", answer)
    return answer.body


def _failure(call: str, answer: Answer) -> GangwrightError:
    """The error of the service, or of the API server instead. Never a 401 of the service: the page would attribute it
    to its own token.
    """
    if REPLICA.lower() not in answer.headers:
        said = refused(call, answer)
        return MissingServiceError(said, "") if said.status in MISSING else said
    try:
        text = msgspec.json.decode(answer.body, type=schemas.Error).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = "no error message"
    return Problem(502 if answer.status == 401 else answer.status, shortened(text))


def _answered(request: web.Request, body: bytes) -> web.Response:
    """The answer, or 304 if the page has it already, so that the page redraws nothing."""
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    if request.method == "GET" and any(one.value == tag for one in request.if_none_match or ()):
        return web.Response(status=304, headers={"ETag": f'"{tag}"'})
    response = web.Response(body=body, content_type="application/json")
    response.etag = tag
    return response
