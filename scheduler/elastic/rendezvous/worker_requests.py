"""A request: its authentication, its body, its parameters and its wait for an answer, each within bounds.

Lives here: everything between HTTP and a call of the master. Never here: an answer, or the event that a request awaits.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from aiohttp import web

from scheduler.elastic.reconciler.job_effects import Assignment
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous.token_auth import Tokens
from scheduler.elastic.rendezvous.worker_messages import BeatAnswer, Reason, Refused
from scheduler.errors import shortened
from scheduler.serving.body import Bodies, Crowded, TooLarge
from scheduler.serving.rate_limit import Buckets
from scheduler.serving.token_reviews import Unknown, token

T = TypeVar("T")

BODY_TIME: Final = 10.0
"""Seconds for a whole body, which is small."""

BODIES: Final = 32 * 2**20
"""Bytes of all bodies in progress. One worker may hold a quarter, which is eight of the largest. It is more if
`rendezvous.bodyLimit` is so large that a quarter would not hold a body of that size."""

STRANGERS_BURST, STRANGERS_RATE = 1024, 32
"""Unknown tokens of one address: burst, and rate per second. Each costs the API server a review. One address may be a
node whose pods use the host's network."""

WORKERS_BURST, WORKERS_RATE = 8192, 200
"""Requests of one worker: burst, and rate per second. A mesh of a thousand members reads some thousands of values at
once; after that, a worker sends one beat per second. Without a bound one worker in a loop would delay every job."""

LONGEST_WORD: Final = 256
"""Maximum characters of a scope or key; those of Horovod are host names with a number."""

LARGEST_ROUND: Final = 2**53


class Worker(NamedTuple):
    """A live worker. job: `namespace/name`. rounds: published rounds of which it is a member, including the newest."""

    job: str
    rounds: frozenset[int]


class WorkerService(Protocol):
    """The interface of the master to the rendezvous. Every method may raise `Refused`.

    A wait may be canceled at any time (the worker disconnected or asked again); reports received by then stay valid.
    """

    def worker(self, uid: str) -> Worker | None:
        """The live worker of this pod; None for any other pod."""

    async def beat(self, beat: Beat) -> BeatAnswer:
        """Record a heartbeat."""

    async def ready(self, arrived: Arrived, wait: float) -> Assignment | None:
        """Record that the worker is at the barrier. Its assignment as soon as it exists, None after `wait` seconds.

        A repeated call returns the same assignment.
        """

    async def announced(self, uid: str, known: int, wait: float) -> int:
        """The newest round announced to the worker, once it is greater than `known`, else after `wait` seconds."""

    async def leave(self, leaving: Leaving) -> None:
        """Record that the worker leaves: the next round excludes it."""

    async def exit(self, exited: Exited) -> bool:
        """Record that the worker's child ended; whether the child is to be restarted."""


class Caller(NamedTuple):
    """The pod that sent a request, and its worker."""

    uid: str
    pod: str
    worker: Worker


class Authenticator:
    """Authenticates workers."""

    def __init__(self, tokens: Tokens, service: WorkerService) -> None:
        self._tokens = tokens
        self._service = service
        self._strangers = Buckets(STRANGERS_BURST, STRANGERS_RATE)
        self._workers = Buckets(WORKERS_BURST, WORKERS_RATE)

    async def caller(self, request: web.Request, now: float) -> Caller:
        """The worker that sent the request. Raises Refused if the sender is not a worker."""
        try:
            word = token(request)
        except Unknown as error:
            raise Refused(Reason.NO_TOKEN, str(error)) from None
        if word is None:
            wrong = "the projected token of the worker's pod is required: Authorization: Bearer TOKEN"
            raise Refused(Reason.NO_TOKEN, wrong)
        if not self._tokens.is_known(word):
            _take(self._strangers, request.remote or "", now, "too many unknown tokens from this address")
        uid, pod, namespace = await self._tokens.who(word)
        _take(self._workers, uid, now, "too many requests from this worker")
        worker = self._service.worker(uid)
        if worker is None:
            raise Refused(Reason.NO_WORKER, f"the pod {namespace}/{pod} is not a worker of a job")
        if worker.job.partition("/")[0] != namespace:
            raise Refused(Reason.OTHER_NAMESPACE, "the token and the job must be in the same namespace")
        return Caller(uid, pod, worker)


def _take(buckets: Buckets, source: str, now: float, wrong: str) -> None:
    pause = buckets.take(source, now)
    if pause:
        raise Refused(Reason.TOO_OFTEN, wrong, pause)


def member(caller: Caller, text: str) -> int:
    """The round of a path, of which the caller must be a member. Raises Refused."""
    number = whole("round", text)
    rounds = caller.worker.rounds
    if number in rounds:
        return number
    if number > max(rounds, default=0):
        raise Refused(Reason.ROUND_AHEAD, f"round {number} is not published to this worker")
    raise Refused(Reason.NO_MEMBER, f"this worker is not a member of round {number}")


def whole(name: str, text: str) -> int:
    """An integer of a path or query. Raises Refused."""
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and int(text) <= LARGEST_ROUND):
        raise _invalid(name, text, f"must be an integer from 0 to {LARGEST_ROUND}")
    return int(text)


def seconds(name: str, text: str, most: float) -> float:
    """Seconds of a query, at most `most`. Raises Refused."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise _invalid(name, text, "must be seconds, 0 or more")
    return min(found, most)


def word(name: str, text: str) -> str:
    """A scope or a key of a path. Raises Refused."""
    if not (0 < len(text) <= LONGEST_WORD and text.isprintable()):
        raise _invalid(name, text, f"must be 1 to {LONGEST_WORD} printable characters")
    return text


async def body(bodies: Bodies, request: web.Request, limit: int, caller: Caller) -> bytes:
    """The body, at most `limit` bytes of it. Raises Refused."""
    try:
        async with asyncio.timeout(BODY_TIME):
            return await bodies.read(request, limit, caller.uid)
    except TooLarge:
        raise Refused(Reason.TOO_LARGE, f"the body must be at most {limit} bytes") from None
    except Crowded:
        raise Refused(Reason.CROWDED, "too many large bodies are being read. Try again in a moment") from None
    except TimeoutError:
        raise Refused(Reason.SLOW, f"the body took more than {BODY_TIME:g} s") from None


def _invalid(name: str, text: str, remedy: str) -> Refused:
    return Refused(Reason.INVALID, f"{name} = {shortened(repr(text), 96)}: {remedy}")


class Waits:
    """Requests that wait for their answer, bounded per worker, and one of each kind per worker.

    A repeated request replaces the earlier one of the same worker, whose connection is most likely closed.
    most: waiting requests of one worker.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[Hashable, asyncio.Task[Any]]] = {}
        self._closed = False

    @property
    def count(self) -> int:
        return sum(map(len, self._of.values()))

    async def answer(self, uid: str, what: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of `ask`. Raises Refused if there are too many, or if the worker repeats the request meanwhile."""
        if self._closed:
            raise _stopping()
        mine = self._of.setdefault(uid, {})
        earlier = mine.get(what)
        if earlier is None and len(mine) >= self._most:
            raise Refused(Reason.TOO_MANY_WAITS, f"at most {self._most} requests of one worker may wait")
        task = mine[what] = asyncio.create_task(ask())
        if earlier is not None:
            earlier.cancel()
        try:
            found: T = await task
        except asyncio.CancelledError:
            if self._closed:
                raise _stopping() from None
            if mine.get(what) is not task:
                raise Refused(
                    Reason.ASKED_AGAIN, "a newer request of the same kind replaces this one"
                ) from None
            raise
        finally:
            if mine.get(what) is task:
                del mine[what]
            if not mine and self._of.get(uid) is mine:
                del self._of[uid]
        return found

    def close(self) -> None:
        """Answer all waiting requests immediately: the master is stopping."""
        self._closed = True
        for mine in self._of.values():
            for task in mine.values():
                task.cancel()


def _stopping() -> Refused:
    return Refused(Reason.STANDBY, "this master is stopping. Ask its successor")
