"""One request, tried until the API server answers it for good.

Lives here: how often it is tried, and what is counted. Never here: what an answer means. No job's troubles may use up
what others need: so many requests are under way at a time, and one that waits for another try is not among them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
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

        def pause(error: Exception) -> float | bool:
            """What the API server wants us to wait counts where it is longer."""
            if not isinstance(error, PASSING):
                return False
            asked = min(error.retry_after or 0.0, self.most)
            return asked if asked > attempt.next_wait else True

        try:
            async for attempt in stamina.retry_context(
                on=pause,
                attempts=tries,
                timeout=None,
                wait_initial=self.least,
                wait_max=self.most,
                wait_jitter=self.least,
            ):
                with attempt:
                    async with self.turn:
                        await self.once(what, call)
        except errors.KubeError as error:
            return error
        return None
