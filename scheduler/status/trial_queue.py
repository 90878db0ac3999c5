"""What people ask of the planner: one question at a time, one of each user in line, and a rest after each.

Lives here: whose turn it is, and how many pods a user may try out. Never here: a question, or its answer.

Why so strict: a dry run of 4,096 pods is a request of 330 bytes and takes a tenth of a second, partly on a thread that
shares the interpreter with kube-scheduler's verbs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from scheduler.serving.rate_limit import Buckets
from scheduler.status.api_problem import too_often

PODS, PODS_RATE = 8192, 512
"""Pods of one user's dry runs: at once, and a second. Twice the largest gang, and a gang of 1,000 every two seconds."""

SHARE: Final = 0.25
"""Of all time, how much may go into these questions: the next rests for three times as long as the last took, up to
LONGEST_REST. One of more than 0.7 s has more than its share, on a thread for most of it.
"""

LONGEST_REST: Final = 2.0
"""Seconds: who is next has some of his 15 left."""

AGAIN: Final = 1.0
"""Seconds after which it is worth asking again while a dry run is under way."""

T = TypeVar("T")


class Trying:
    """The line of questions. clock: seconds, never back."""

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._pods = Buckets(PODS, PODS_RATE)
        self._trying: set[str] = set()
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turn = asyncio.Lock()
        self._free_at = float("-inf")

    async def trial(self, user: str, pods: int, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, in its turn. Raises Problem where his last one is not answered, or for too many pods."""
        if user in self._trying:
            raise too_often(AGAIN, "your last dry run is under way: one of each user at a time")
        wait = self._pods.take(user, self._clock(), pods)
        if wait:
            raise too_often(
                wait, f"too many pods: dry runs of a user have {PODS} at once, and {PODS_RATE} a second"
            )
        self._trying.add(user)
        try:
            return await self.question(user, work)
        finally:
            self._trying.discard(user)

    async def question(self, user: str, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, in its turn; a user's questions wait for each other first, so users take turns."""
        line = self._lines.setdefault(_tenant(user), asyncio.Lock())
        async with line:
            await self._turn.acquire()
            try:
                await self._sleep(max(0.0, min(LONGEST_REST, self._free_at - self._clock())))
            except BaseException:
                self._turn.release()
                raise
            # Who gives up leaves a thread behind that goes on: the turn is over when that is.
            task, began = asyncio.ensure_future(work()), self._clock()
            task.add_done_callback(lambda done: self._over(done, began))
            return await asyncio.shield(task)

    def _over(self, done: "asyncio.Future[T]", began: float) -> None:
        if not done.cancelled():
            done.exception()  # the asker may be gone
        ended = self._clock()
        self._free_at = ended + (ended - began) * (1 / SHARE - 1)
        self._turn.release()


def _tenant(user: str) -> str:
    """Who takes turns with others: all service accounts of a namespace are one, for a tenant can make any number."""
    account = user.startswith("system:serviceaccount:")
    return user.rpartition(":")[0] if account else user
