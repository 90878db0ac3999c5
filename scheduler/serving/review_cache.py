"""The API server's reviews of callers, cached: bounded in number and time, with one review of a key at a time.

Lives here: the cache and the reviews under way. Never here: a review itself, or the consequences of its answer.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(NamedTuple):
    """How many seconds an answer is valid, and how many answers are kept."""

    seconds: float
    most: int


class ReviewCache(Generic[K, V]):
    """Answers by key. "Yes" and "no" are kept separately, so that a flood of rejected callers evicts no good one.

    is_yes: whether an answer is a "yes". A failed review is not cached. It is raised to all callers that wait for it.
    """

    def __init__(
        self, *, yes: Kept, no: Kept, is_yes: Callable[[V], bool] = bool, clock: Callable[[], float]
    ) -> None:
        self._kept = {True: yes, False: no}
        self._is_yes = is_yes
        self._clock = clock
        self._answers: dict[bool, OrderedDict[K, tuple[V, float]]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        self._asked: dict[K, asyncio.Task[V]] = {}

    def known(self, key: K) -> V | None:
        """The cached answer, if it is still valid."""
        for answers in self._answers.values():
            found = answers.get(key)
            if found is not None and self._clock() < found[1]:
                answers.move_to_end(key)
                return found[0]
        return None

    def last_yes(self, key: K) -> V | None:
        """The last "yes", regardless of its age, unless a newer answer has replaced it."""
        found = self._answers[True].get(key)
        return found[0] if found is not None else None

    def asked(self, key: K) -> bool:
        """Whether a review of this key is under way."""
        return key in self._asked

    async def get(self, key: K, review: Callable[[], Awaitable[V]], *, fresh: bool = False) -> V:
        """The cached answer, otherwise that of `review`. fresh: review in any case. Raises what `review` raises."""
        known = None if fresh else self.known(key)
        if known is not None:
            return known
        # Shielded: when one caller gives up, the others still get their answer.
        return await asyncio.shield(self.ask(key, review, fresh=fresh))

    def ask(self, key: K, review: Callable[[], Awaitable[V]], *, fresh: bool = False) -> "asyncio.Task[V]":
        """The review under way, started if there is none. fresh: started in any case."""
        task = self._asked.get(key)
        if task is None or fresh:
            task = self._asked[key] = asyncio.create_task(self._ask(key, review))
            task.add_done_callback(_heard)
        return task

    async def close(self) -> None:
        """Cancel the reviews under way."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, key: K, review: Callable[[], Awaitable[V]]) -> V:
        try:
            answer = await review()
        finally:
            if self._asked.get(key) is asyncio.current_task():
                del self._asked[key]
        for answers in self._answers.values():
            answers.pop(key, None)
        kind = self._is_yes(answer)
        answers, kept = self._answers[kind], self._kept[kind]
        answers[key] = answer, self._clock() + kept.seconds
        if len(answers) > kept.most:
            answers.popitem(last=False)
        return answer


def _heard(task: "asyncio.Task[V]") -> None:
    """Mark a failure as retrieved, because nothing may wait for it any more."""
    if not task.cancelled():
        task.exception()
