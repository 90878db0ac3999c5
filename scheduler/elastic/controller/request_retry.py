"""One request, tried until the API server answers it for good.

Lives here: which answers pass by themselves, and the waits between two tries. Never here: what an answer means. No
job's troubles may use up what others need: so many requests are under way at a time, and who waits for another try
holds none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, Literal, TypeAlias

from scheduler import errors
from scheduler.elastic.controller.requests import Call
from scheduler.kube.actions import PASSING
from scheduler.kube.client import Client, send

CALL_LIMIT: Final = 10.0
"""Seconds for one request."""

What: TypeAlias = Literal["start", "stop", "status", "read", "policy", "event", "quorum"]
"""What a request is for."""

TRIES: Final = 8
"""Of one request; with waits that double from a second that is some two minutes. Whoever still wants it asks again."""


class Waits:
    """Seconds before the next try: from `least`, doubled by each failure, up to `most`; the upper half by chance."""

    def __init__(self, least: float, most: float, chance: Random) -> None:
        self._least = least
        self._most = most
        self._chance = chance
        self.failures = 0

    def good(self) -> None:
        self.failures = 0

    def bad(self, asked: float | None = None) -> float:
        """One more failure. asked: what the API server wants us to wait, in seconds."""
        high = min(self._most, self._least * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return max(self._chance.uniform(high / 2, high), min(asked or 0.0, self._most))


class RequestRetry:
    """Requests of all jobs. Times in seconds. counted: told what it was for, and the result in one word. acting:
    whether another master may not act already; who slept too long finds out before he writes.
    """

    def __init__(
        self,
        client: Client,
        *,
        at_once: int,
        least: float,
        most: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Random | None = None,
        counted: Callable[[str, str], None] = lambda _what, _result: None,
        acting: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._turn = asyncio.Semaphore(at_once)
        self._least = least
        self._most = most
        self._chance = chance or Random()
        self._counted = counted
        self._acting = acting
        self.sleep = sleep

    def waits(self, least: float | None = None, most: float | None = None) -> Waits:
        """The waits of one request, or of a row of them."""
        return Waits(least or self._least, most or self._most, self._chance)

    async def once(self, what: What, call: Call) -> bytes:
        """The answer. Raises KubeError."""
        if not self._acting():
            raise errors.Unreachable(f"{call.method} {call.path}", "the Lease is no longer ours")
        try:
            answer = await send(self._client, call, CALL_LIMIT)
        except errors.KubeError as error:
            self._counted(what, result(error))
            raise
        self._counted(what, "done")
        return answer

    async def until_answered(self, what: What, call: Call, tries: int = TRIES) -> errors.KubeError | None:
        """None when it was done, else why not: an answer that would not change, or the last one of those that pass."""
        waits = self.waits()
        while True:
            try:
                async with self._turn:
                    await self.once(what, call)
            except errors.KubeError as error:
                if not isinstance(error, PASSING) or waits.failures + 1 >= tries:
                    return error
                await self.sleep(waits.bad(error.retry_after))
            else:
                return None


RESULTS: Final[tuple[tuple[type[errors.KubeError], str], ...]] = (
    (errors.NotFound, "gone"),
    (errors.Gone, "gone"),
    (errors.Conflict, "conflict"),
    (errors.Invalid, "invalid"),
    (errors.Forbidden, "forbidden"),
    (errors.Unauthorized, "forbidden"),
)
"""The first row that an error is an instance of is its word; everything else passes by itself: `unavailable`."""


COUNTED: Final = frozenset({"done", "unavailable", *(word for _, word in RESULTS)})
"""Every result that is counted."""


def result(error: errors.KubeError) -> str:
    """The error in one word of a closed list."""
    return next((word for kind, word in RESULTS if isinstance(error, kind)), "unavailable")
