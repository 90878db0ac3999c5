"""One request, tried until the API server answers it for good.

Lives here: how often it is tried, and what is counted. Never here: what an answer means. No job's troubles may use up
what others need: so many requests are under way at a time, and one that waits for another try is not among them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import uniform
from typing import Final, Literal, TypeAlias

import stamina

from scheduler import errors
from scheduler.kube.actions import PASSING
from scheduler.kube.api_errors import UNAVAILABLE, WORDS, word_of
from scheduler.kube.client import Client, send
from scheduler.objects.patches import Call

CALL_LIMIT: Final = 10.0
"""Seconds for one request."""

What: TypeAlias = Literal["start", "stop", "status", "read", "policy", "event", "quorum"]
"""What a request is for."""

TRIES: Final = 8
"""Of one request; with waits that double from a second that is some two minutes. What is still wanted is asked again."""

COUNTED: Final = frozenset({"done", UNAVAILABLE, *WORDS.values()})
"""Every result that is counted."""


@dataclass(frozen=True, slots=True)
class RequestRetry:
    """Requests of all jobs. turn: has as many as may be under way. least, most: seconds of the first wait between two
    tries, and of the longest. counted: told what it was for, and the result in one word. acting: whether another master
    may not act already; asked before each.
    """

    client: Client
    turn: asyncio.Semaphore
    least: float
    most: float
    counted: Callable[[str, str], None] = lambda _what, _result: None
    acting: Callable[[], bool] = lambda: True

    async def once(self, what: What, call: Call) -> bytes:
        """The answer. Raises KubeError."""
        if not self.acting():
            raise errors.Unreachable(f"{call.method} {call.path}", "the Lease is no longer ours")
        try:
            answer = await send(self.client, call, CALL_LIMIT)
        except errors.KubeError as error:
            self.counted(what, word_of(error))
            raise
        self.counted(what, "done")
        return answer

    async def until_answered(self, what: What, call: Call, tries: int = TRIES) -> errors.KubeError | None:
        """None when it was done, else why not: an answer that would not change, or the last one of those that pass."""
        try:
            async for attempt in attempts(PASSING, tries=tries, least=self.least, most=self.most):
                with attempt:
                    async with self.turn:
                        await self.once(what, call)
        except errors.KubeError as error:
            return error
        return None


async def attempts(
    passing: type[errors.KubeError] | tuple[type[errors.KubeError], ...],
    *,
    tries: int | None,
    least: float,
    most: float,
) -> AsyncIterator[stamina.Attempt]:
    """Try after try, while what fails is `passing`. The wait doubles from `least` to `most` seconds, less up to half of it by
    chance, so that jobs do not go on in step. What the API server wants us to wait counts where it is longer.
    """

    def pause(error: Exception) -> float | bool:
        if not isinstance(error, passing):
            return False
        return max(uniform(0.5, 1.0) * attempt.next_wait, min(error.retry_after or 0.0, most))

    async for attempt in stamina.retry_context(
        on=pause, attempts=tries, timeout=None, wait_initial=least, wait_max=most, wait_jitter=0.0
    ):
        yield attempt
