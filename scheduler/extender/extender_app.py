"""The extender endpoints over HTTP: routes, bounds, one canonical line and one counter per call.

Lives here: everything between a socket and `verb_handlers`. Never here: the content of an answer.

Why endpoint errors have status 200: kube-scheduler discards the body of any other status and shows users the bare
number. Only requests that kube-scheduler never sends (a wrong path, method or content type) get another status. Why
replies are small objects with a known length: headers and body are sent in one segment. Two segments would cost 40 ms a
call, because Nagle's algorithm and delayed acknowledgments wait for each other.
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

TOO_SLOW: Final = "Gangwright did not answer in time"
TOO_LARGE: Final = "the body is too large; set nodeCacheCapable: true on the extender of kube-scheduler"
CROWDED: Final = "Gangwright is reading too many request bodies at a time"
"""Constant, like every text that kube-scheduler shows: a text that changes makes it retry without end."""

LONGEST_WAIT: Final = 10.0
"""Seconds for a whole call, regardless of httpTimeout: a slow body holds memory."""

NEWCOMERS: Final = 100
"""Nodes that may be added to a small cluster at once."""

_log = structlog.get_logger("extender")
_numbers = itertools.count(1)


class Answered(web.Response):
    """The reply of an endpoint, with the values for the log."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(body=reply.body, content_type="application/json")
        self.reply = reply


class Limits(NamedTuple):
    """Maximum bytes of a call's body, and maximum number of its candidates."""

    body: int
    candidates: int = UNBOUNDED


def limits(nodes: int, pods: int, ceiling: int) -> Limits:
    """The limits of a call in a cluster of `nodes` and `pods`: names of maximum length, uids, and one large pod.

    64 bytes per victim, 4 MiB for the pod (the API's own limit is 3 MiB per request). Candidates: twice the known nodes
    and `NEWCOMERS`, because kube-scheduler may learn of nodes first.
    """
    return Limits(min(4 * 2**20 + NAME * nodes + 64 * pods, ceiling), 2 * nodes + NEWCOMERS)


def build_app(
    verbs: Verbs, settings: VerbsServer, metrics: Metrics, limit: Callable[[], Limits] | None = None
) -> web.Application:
    """The application that answers POST /v1/filter, /v1/prioritize and /v1/preempt.

    limit: the current limits of a call, see `limits`. By default only the setting `bodyLimit`, which also bounds all
    bodies together.
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
        except Exception:  # noqa: BLE001 - kube-scheduler always gets an answer; the log gets the trace
            _log.exception("endpoint failed")
            return Answered(verb.failed(BROKEN, "Broken"))
        return closing(request, Answered(reply))

    return handle


def _check_headers(request: web.Request) -> None:
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="the content type must be application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise web.HTTPUnsupportedMediaType(text="the body must not be compressed")


def _observed(metrics: Metrics) -> Any:
    """The middleware: a number and a timer for every call, and a log line and a counter at its end."""

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
            _log.warning("rejected", status=response.status, method=request.method, path=request.path)
        return response

    return observe


def _refusal(request: web.Request, error: web.HTTPException) -> web.Response:
    """The error as short JSON."""
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
    # kube-scheduler may retry a pending gang without end: log every "yes", and limit each kind of "no".
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
