"""The verbs over HTTP: routes, bounds, one canonical line and one counter a call.

Lives here: everything between a socket and `verb_handlers`. Never here: what an answer is.

Why errors of a verb are status 200: kube-scheduler throws the body of any other status away and shows its user
the bare number. Only what kube-scheduler never does (a wrong path, method or content type) has a status of its
own. Why replies are small objects with a known length: headers and body leave in one segment; two would cost
40 ms a call, because Nagle's algorithm and delayed acknowledgements wait for each other.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog
from aiohttp import web

from scheduler.extender.verb_handlers import VERBS, Reply, Verb, Verbs
from scheduler.extender.wire import NAME, UNBOUNDED, WireError
from scheduler.serving.body import Bodies, Crowded, TooLarge
from scheduler.serving.middleware import BROKEN, Handler, closing
from scheduler.serving.server import serve
from scheduler.settings import VerbsServer
from scheduler.telemetry.metrics import Metrics

__all__ = ["Answered", "Limits", "build_app", "limits", "serve"]

TOO_SLOW: Final = "gangwright could not answer in time"
TOO_LARGE: Final = "the body is too large: is nodeCacheCapable: true set on the extender of kube-scheduler?"
CROWDED: Final = "gangwright reads too many bodies at a time"
"""Constant, as every text that kube-scheduler shows: one that varies makes it ask again without end."""

LONGEST_WAIT: Final = 10.0
"""Seconds for a whole call, whatever httpTimeout says: a body that trickles in holds memory."""

NEWCOMERS: Final = 100
"""Nodes that a small cluster may gain at a stroke."""

_log = structlog.get_logger("extender")
_numbers = itertools.count(1)


class Answered(web.Response):
    """A verb's reply, with what the log says of it."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(body=reply.body, content_type="application/json")
        self.reply = reply


class Limits(NamedTuple):
    """What a call may have: bytes of its body, and candidates."""

    body: int
    candidates: int = UNBOUNDED


def limits(nodes: int, pods: int, ceiling: int) -> Limits:
    """What a call over so many nodes and pods may have: names of the longest kind, uids, and one large pod.

    64 bytes a victim, 4 MiB for the pod (the API's own limit is 3 MiB a request). Candidates: twice what we know of, and
    some, because kube-scheduler may know of nodes before we do.
    """
    return Limits(min(4 * 2**20 + NAME * nodes + 64 * pods, ceiling), 2 * nodes + NEWCOMERS)


def build_app(
    verbs: Verbs, settings: VerbsServer, metrics: Metrics, limit: Callable[[], Limits] | None = None
) -> web.Application:
    """The application that answers POST /v1/filter, /v1/prioritize and /v1/preempt.

    limit: what a call may have now, see `limits`; by default a body as the setting says, which also bounds all bodies
    together.
    """
    app = web.Application(middlewares=[_observed(metrics)])
    bodies, most = Bodies(settings.body_limit), limit or (lambda: Limits(settings.body_limit))
    wait = min(settings.http_timeout / 2, LONGEST_WAIT)
    for name, verb in VERBS.items():
        app.router.add_post(f"/v1/{name}", _handler(verb, verbs, wait, bodies, most), name=name)
    return app


def _handler(verb: Verb, verbs: Verbs, wait: float, bodies: Bodies, limit: Callable[[], Limits]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        _check_headers(request)
        most = limit()
        try:
            async with asyncio.timeout(wait):
                body = await bodies.read(request, most.body)
                return Answered(await verb.answer(verbs, body, most.candidates))
        except WireError as error:
            reply = verb.failed(str(error), "Malformed")
        except TooLarge:
            reply = verb.failed(TOO_LARGE, "Malformed")
        except Crowded:
            reply = verb.failed(CROWDED, "Malformed")
        except TimeoutError:
            reply = verb.failed(TOO_SLOW, "TooSlow")
        except ConnectionError:
            raise  # no caller is left to answer
        except Exception:  # noqa: BLE001 - whatever it was, kube-scheduler gets an answer, and the log the trace
            _log.exception("verb failed")
            return Answered(verb.failed(BROKEN, "Broken"))
        return closing(request, Answered(reply))

    return handle


def _check_headers(request: web.Request) -> None:
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="the content type must be application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise web.HTTPUnsupportedMediaType(text="the body must not be compressed")


def _observed(metrics: Metrics) -> Any:
    """The middleware: a number and a timer for every call, a line and a counter at its end."""

    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        structlog.contextvars.bind_contextvars(call=next(_numbers))
        loop = asyncio.get_running_loop()
        began = loop.time()
        verb = request.match_info.route.name or "none"
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = _refusal(request, error)
        if isinstance(response, Answered):
            _account(metrics, verb, response.reply, loop.time() - began)
        else:
            metrics.verb_total.labels("none", "error").inc()
            _log.warning("refused", status=response.status, method=request.method, path=request.path)
        return response

    return observe


def _refusal(request: web.Request, error: web.HTTPException) -> web.Response:
    """The same as short JSON."""
    text = error.text if error.status == web.HTTPUnsupportedMediaType.status_code else error.reason
    response = web.json_response({"error": text}, status=error.status)
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return closing(request, response)


def _account(metrics: Metrics, verb: str, reply: Reply, took: float) -> None:
    metrics.verb_duration_seconds.labels(verb).observe(took)
    metrics.verb_total.labels(verb, reply.result).inc()
    metrics.answers_total.labels(verb, reply.reason or "none").inc()
    say = _log.warning if reply.result == "error" else _log.info
    # A gang that waits may be asked about without end: every "yes" is written, a "no" by its kind.
    kind = {} if reply.result == "allowed" else {"kind": (verb, reply.reason)}
    say(
        "answered",
        verb=verb,
        result=reply.result,
        reason=reply.reason,
        pod=reply.pod,
        candidates=reply.candidates,
        left=reply.answered,
        ms=round(took * 1000, 3),
        **kind,
    )
