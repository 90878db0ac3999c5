"""One request, retried until the API server gives a final answer.

Lives here: how often it is retried, and what is counted. Never here: what an answer means. A failing job must not use
up the capacity of others: the number of requests in progress is limited, and waiting for a retry does not count.
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
"""Timeout of one request, in seconds."""

What: TypeAlias = Literal["start", "stop", "status", "read", "policy", "event", "quorum"]
"""Purpose of a request."""

TRIES: Final = 8
"""Attempts of one request: about two minutes with waits doubling from one second. If still needed, it is repeated."""

COUNTED: Final = frozenset({"done", UNAVAILABLE, *WORDS.values()})
"""Every counted result."""


@dataclass(frozen=True, slots=True)
class RequestRetry:
    """Requests of all jobs. turn: limits the requests in progress. least, most: seconds of the first wait between two
    attempts, and of the longest. counted: receives purpose and result of a request. acting: whether this master is
    certainly still the active one; checked before each request.
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
            raise errors.Unreachable(f"{call.method} {call.path}", "the Lease is lost")
        try:
            answer = await send(self.client, call, CALL_LIMIT)
        except errors.KubeError as error:
            self.counted(what, word_of(error))
            raise
        self.counted(what, "done")
        return answer

    async def until_answered(self, what: What, call: Call, tries: int = TRIES) -> errors.KubeError | None:
        """None when it was done. Otherwise the error: a final answer, or the last one of those that may pass."""
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
    """Attempts, as long as the failure is `passing`. The wait doubles from `least` to `most` seconds, less a random
    part of up to half, so that jobs do not run in step. A longer wait requested by the API server takes precedence.
    """

    def pause(error: Exception) -> float | bool:
        if not isinstance(error, passing):
            return False
        return max(uniform(0.5, 1.0) * attempt.next_wait, min(error.retry_after or 0.0, most))

    async for attempt in stamina.retry_context(
        on=pause, attempts=tries, timeout=None, wait_initial=least, wait_max=most, wait_jitter=0.0
    ):
        yield attempt
