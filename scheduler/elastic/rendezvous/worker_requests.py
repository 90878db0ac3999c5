"""A request as it comes: who asks, its body, its words, and its wait for an answer, each within bounds.

Lives here: everything between HTTP and a question to the master. Never here: an answer, or what is waited for.
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
"""Bytes of all bodies that are being read. One worker may hold a quarter, which is eight of the largest. It is more
where `rendezvous.bodyLimit` is so large that a quarter would hold no body of that size."""

STRANGERS_BURST, STRANGERS_RATE = 1024, 32
"""Tokens not seen before, of one address: at once, and a second. Each costs the API server a review; behind one address
may be a node whose pods have the host's network."""

WORKERS_BURST, WORKERS_RATE = 8192, 200
"""Requests of one worker: at once, and a second. A mesh of a thousand asks for some thousands of values in one moment;
then it is one beat a second. Without a bound one worker in a loop would hold up every job."""

LONGEST_WORD: Final = 256
"""Characters of a scope or key; Horovod's are host names with a number."""

LARGEST_ROUND: Final = 2**53


class Worker(NamedTuple):
    """A live worker. job: `namespace/name`. rounds: the published ones of which it is a member, the newest included."""

    job: str
    rounds: frozenset[int]


class WorkerService(Protocol):
    """What the master does for the rendezvous. Every method may raise `Refused`.

    A wait may be cancelled at any moment (the worker is gone, or asked again); what was told by then stays told.
    """

    def worker(self, uid: str) -> Worker | None:
        """The live worker whose pod this is; None for any other pod."""

    async def beat(self, beat: Beat) -> BeatAnswer:
        """Note the sign of life."""

    async def ready(self, arrived: Arrived, wait: float) -> Assignment | None:
        """Note that it stands at the barrier. Its assignment as soon as there is one, None after `wait` seconds.

        Asked again, the same assignment again.
        """

    async def announced(self, uid: str, known: int, wait: float) -> int:
        """The newest round that is announced to it, as soon as it is beyond `known`, else after `wait` seconds."""

    async def leave(self, leaving: Leaving) -> None:
        """Note that it goes: the next round is without it."""

    async def exit(self, exited: Exited) -> bool:
        """Note that its child ended; whether the child is to be started again."""


class Caller(NamedTuple):
    """Who asks: the pod, and the worker that it is."""

    uid: str
    pod: str
    worker: Worker


class Authenticator:
    """Tells a worker from everybody else."""

    def __init__(self, tokens: Tokens, service: WorkerService) -> None:
        self._tokens = tokens
        self._service = service
        self._strangers = Buckets(STRANGERS_BURST, STRANGERS_RATE)
        self._workers = Buckets(WORKERS_BURST, WORKERS_RATE)

    async def caller(self, request: web.Request, now: float) -> Caller:
        """The worker that asks. Raises Refused for whoever is none."""
        try:
            word = token(request)
        except Unknown as error:
            raise Refused(Reason.NO_TOKEN, str(error)) from None
        if word is None:
            wrong = "the projected token of the worker's pod is needed: Authorization: Bearer TOKEN"
            raise Refused(Reason.NO_TOKEN, wrong)
        if not self._tokens.is_known(word):
            _take(self._strangers, request.remote or "", now, "too many unknown tokens from this address")
        uid, pod, namespace = await self._tokens.who(word)
        _take(self._workers, uid, now, "too many requests of this worker")
        worker = self._service.worker(uid)
        if worker is None:
            raise Refused(Reason.NO_WORKER, f"the pod {namespace}/{pod} is no worker of a job")
        if worker.job.partition("/")[0] != namespace:
            raise Refused(Reason.OTHER_NAMESPACE, "the token is of another namespace than the job")
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
    raise Refused(Reason.NO_MEMBER, f"this worker is no member of round {number}")


def whole(name: str, text: str) -> int:
    """A whole number of a path or query. Raises Refused."""
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and int(text) <= LARGEST_ROUND):
        raise _invalid(name, text, f"must be a whole number from 0 to {LARGEST_ROUND}")
    return int(text)


def seconds(name: str, text: str, most: float) -> float:
    """Seconds of a query, cut to what we wait at most. Raises Refused."""
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
        raise Refused(Reason.CROWDED, "too many large bodies are being read; try again in a moment") from None
    except TimeoutError:
        raise Refused(Reason.SLOW, f"the body took more than {BODY_TIME:g} s") from None


def _invalid(name: str, text: str, remedy: str) -> Refused:
    return Refused(Reason.INVALID, f"{name} = {shortened(repr(text), 96)}: {remedy}")


class Waits:
    """Questions that wait for their answer: so many of one worker, and one of each kind.

    A worker that asks the same again takes the place of its own earlier question, whose connection is most likely gone.
    most: questions of one worker at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[Hashable, asyncio.Task[Any]]] = {}
        self._closed = False

    @property
    def count(self) -> int:
        return sum(map(len, self._of.values()))

    async def answer(self, uid: str, what: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of `ask`. Raises Refused when there are too many, or when the worker asks the same again
        meanwhile.
        """
        if self._closed:
            raise _stopping()
        mine = self._of.setdefault(uid, {})
        earlier = mine.get(what)
        if earlier is None and len(mine) >= self._most:
            raise Refused(Reason.TOO_MANY_WAITS, f"at most {self._most} questions of one worker may wait")
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
                    Reason.ASKED_AGAIN, "the same was asked again, which is answered instead"
                ) from None
            raise
        finally:
            if mine.get(what) is task:
                del mine[what]
            if not mine and self._of.get(uid) is mine:
                del self._of[uid]
        return found

    def close(self) -> None:
        """Answer everybody at once that we stop; nobody waits any longer."""
        self._closed = True
        for mine in self._of.values():
            for task in mine.values():
                task.cancel()


def _stopping() -> Refused:
    return Refused(Reason.STANDBY, "this master stops; ask the one that follows")
