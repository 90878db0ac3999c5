"""One request, tried until the API server answers it for good.

Lives here: how often it is tried, and what is counted. Never here: what an answer means. No job's troubles may use up
what others need: so many requests are under way at a time, and one that waits for another try is not among them.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import stamina

from scheduler import errors
from scheduler.elastic.controller.requests import Call
from scheduler.kube.actions import PASSING
from scheduler.kube.api_errors import UNAVAILABLE, WORDS, word_of
from scheduler.kube.client import Client, send

CALL_LIMIT: Final = 10.0
"""Seconds for one request."""

What: TypeAlias = Literal["start", "stop", "status", "read", "policy", "event", "quorum"]
"""What a request is for."""

TRIES: Final = 8
"""Of one request; with waits that double from a second that is some two minutes. What is still wanted is asked again."""

COUNTED: Final = frozenset({"done", UNAVAILABLE, *WORDS.values()})
"""Every result that is counted."""


class RequestRetry:
    """Requests of all jobs. least, most: seconds of the first wait between two tries, and of the longest. counted: told
    what it was for, and the result in one word. acting: whether another master may not act already; asked before each.
    """

    def __init__(
        self,
        client: Client,
        *,
        at_once: int,
        least: float,
        most: float,
        counted: Callable[[str, str], None] = lambda _what, _result: None,
        acting: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._turn = asyncio.Semaphore(at_once)
        self._least = least
        self._most = most
        self._counted = counted
        self._acting = acting

    async def once(self, what: What, call: Call) -> bytes:
        """The answer. Raises KubeError."""
        if not self._acting():
            raise errors.Unreachable(f"{call.method} {call.path}", "the Lease is no longer ours")
        try:
            answer = await send(self._client, call, CALL_LIMIT)
        except errors.KubeError as error:
            self._counted(what, word_of(error))
            raise
        self._counted(what, "done")
        return answer

    async def until_answered(self, what: What, call: Call, tries: int = TRIES) -> errors.KubeError | None:
        """None when it was done, else why not: an answer that would not change, or the last one of those that pass."""

        def pause(error: Exception) -> float | bool:
            """What the API server wants us to wait counts where it is longer."""
            if not isinstance(error, PASSING):
                return False
            asked = min(error.retry_after or 0.0, self._most)
            return asked if asked > attempt.next_wait else True

        try:
            async for attempt in stamina.retry_context(
                on=pause,
                attempts=tries,
                timeout=None,
                wait_initial=self._least,
                wait_max=self._most,
                wait_jitter=self._least,
            ):
                with attempt:
                    async with self._turn:
                        await self.once(what, call)
        except errors.KubeError as error:
            return error
        return None
