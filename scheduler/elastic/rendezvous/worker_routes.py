"""The routes of the rendezvous, as one table, and the answer of each.

Lives here: the path from a worker's request to the `WorkerService` or to the values of its round, and back. Never here:
authentication (the `uid` was checked before), or the meaning of a value.

A value that begins like a pickle of protocols 2 to 5, bare or in base64, is rejected. Gangwright never writes one, so
it is a mistake, and its writer learns of it immediately. It is not a filter against attackers. What protects a worker
is that Gangwright never unpickles.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aiohttp import web

from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous import worker_messages, worker_requests
from scheduler.elastic.rendezvous.kv_store import Values
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused, S, decoded
from scheduler.elastic.rendezvous.worker_requests import Caller, Waits, WorkerService
from scheduler.serving.body import SHARE, Bodies
from scheduler.settings import RendezvousServer

PICKLES: Final = (
    *(bytes((0x80, protocol)) for protocol in range(2, 6)),
    *(f"gA{letter}".encode() for letter in "IJKLMNOPQRSTUVWX"),
)
"""First bytes of a pickle of protocols 2 to 5, bare and in base64."""

BYTES: Final = "application/octet-stream"

BESIDE, BESIDE_SIZE = 256, 256 << 10
"""Maximum number of additional values in an answer, and their bytes before base64. With the requested value, an answer
stays well below the 1 MiB that an agent reads, and no request costs more lookups than its answer is worth."""


class WorkerRoutes:
    """Handlers of the workers' requests."""

    def __init__(
        self, service: WorkerService, values: Values, waits: Waits, bounds: RendezvousServer
    ) -> None:
        self._service = service
        self._values = values
        self._waits = waits
        self._bounds = bounds
        self._bodies = Bodies(max(worker_requests.BODIES, SHARE * bounds.body_limit))

    async def beat(self, request: web.Request, caller: Caller) -> web.Response:
        return _json(await self._service.beat(await self._body(Beat, request, caller)))

    async def ready(self, request: web.Request, caller: Caller) -> web.Response:
        arrived, wait = await self._body(Arrived, request, caller), self._bounds.wait
        found = await self._waits.answer(caller.uid, "ready", lambda: self._service.ready(arrived, wait))
        return web.Response(status=204) if found is None else _json(found)

    async def announced(self, request: web.Request, caller: Caller) -> web.Response:
        known = worker_requests.whole("round", request.query.get("round", "0"))
        wait = self._seconds(request, self._bounds.wait)
        newest = await self._waits.answer(
            caller.uid, "announced", lambda: self._service.announced(caller.uid, known, wait)
        )
        return _json(worker_messages.Announced(newest))

    async def put(self, request: web.Request, caller: Caller) -> web.Response:
        number, key = _place(request, caller)
        value = await worker_requests.body(self._bodies, request, self._bounds.value_limit, caller)
        if value.startswith(PICKLES):
            raise Refused(Reason.PICKLE, "the value must not be a pickle")
        if self._service.worker(caller.uid) is None:  # it ended while its body was read
            raise Refused(Reason.NO_WORKER, f"the pod {caller.pod} is no longer a worker of a job")
        self._values.put(caller.worker.job, number, key, value)
        return web.Response(status=204)

    async def get(self, request: web.Request, caller: Caller) -> web.Response:
        number, key = _place(request, caller)
        wait = self._seconds(request, 0.0)
        beside = worker_requests.whole("beside", request.query.get("beside", "0"))
        values = self._values.round(caller.worker.job, number)
        value = await self._waits.answer(caller.uid, (number, key), lambda: values.get(key, wait))
        if value is None:
            raise Refused(Reason.NO_VALUE, f"round {number} has no value of this key yet")
        if "beside" not in request.query:
            return web.Response(body=value, content_type=BYTES)
        found = {key: value} | values.beside(key, min(beside, BESIDE), BESIDE_SIZE)
        scope = len(key) - len(request.match_info["key"])
        return _json(worker_messages.Values({one[scope:]: there for one, there in found.items()}))

    async def leave(self, request: web.Request, caller: Caller) -> web.Response:
        await self._service.leave(await self._body(Leaving, request, caller))
        return _json({})

    async def exit(self, request: web.Request, caller: Caller) -> web.Response:
        again = await self._service.exit(await self._body(Exited, request, caller))
        return _json(worker_messages.ExitAnswer(again))

    async def _body(self, kind: type[S], request: web.Request, caller: Caller) -> S:
        body = await worker_requests.body(self._bodies, request, self._bounds.body_limit, caller)
        return decoded(kind, caller.uid, body)

    def _seconds(self, request: web.Request, default: float) -> float:
        return worker_requests.seconds("wait", request.query.get("wait", f"{default}"), self._bounds.wait)


class Route(NamedTuple):
    """waits: its answer may wait for an event, so its duration is not recorded."""

    method: str
    path: str
    name: str
    answer: Callable[[WorkerRoutes, web.Request, Caller], Awaitable[web.Response]]
    waits: bool = False


_VALUE: Final = "/v1/rounds/{round}/kv/{scope}/{key}"

ROUTES: Final = (
    Route("POST", "/v1/beat", "beat", WorkerRoutes.beat),
    Route("POST", "/v1/ready", "ready", WorkerRoutes.ready, waits=True),
    Route("GET", "/v1/announced", "announced", WorkerRoutes.announced, waits=True),
    Route("PUT", _VALUE, "put", WorkerRoutes.put),
    Route("GET", _VALUE, "get", WorkerRoutes.get, waits=True),
    Route("POST", "/v1/leave", "leave", WorkerRoutes.leave),
    Route("POST", "/v1/exit", "exit", WorkerRoutes.exit),
)


def _place(request: web.Request, caller: Caller) -> tuple[int, str]:
    """The round and the key, including its scope, of a path."""
    place = request.match_info
    scope, key = worker_requests.word("scope", place["scope"]), worker_requests.word("key", place["key"])
    return worker_requests.member(caller, place["round"]), f"{scope}/{key}"


def _json(answer: object) -> web.Response:
    return web.Response(body=worker_messages.encode(answer), content_type="application/json")
