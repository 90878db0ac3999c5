"""What the API server said of callers, remembered for a while: bounded in number and time, and asked once at a time.

Lives here: the memory and the questions under way. Never here: a question, or what follows from its answer.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(NamedTuple):
    """For how many seconds an answer counts, and how many are kept."""

    seconds: float
    most: int


class ReviewCache(Generic[K, V]):
    """Answers by key. A yes and a no are kept apart, so that a flood of refused callers forgets no good one.

    is_yes: which answers are a yes. A failure to ask is not remembered: it passes to all that wait for it.
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
        """What is remembered, if it still counts."""
        for answers in self._answers.values():
            found = answers.get(key)
            if found is not None and self._clock() < found[1]:
                answers.move_to_end(key)
                return found[0]
        return None

    def last_yes(self, key: K) -> V | None:
        """The last yes, however old, while no newer answer has taken its place."""
        found = self._answers[True].get(key)
        return found[0] if found is not None else None

    def asked(self, key: K) -> bool:
        """A question about it is under way."""
        return key in self._asked

    async def get(self, key: K, review: Callable[[], Awaitable[V]], *, fresh: bool = False) -> V:
        """What is remembered, else what `review` says. fresh: ask in any case. Raises what `review` raises."""
        known = None if fresh else self.known(key)
        if known is not None:
            return known
        # Shielded: when one of those that wait gives up, the others still get their answer.
        return await asyncio.shield(self.ask(key, review, fresh=fresh))

    def ask(self, key: K, review: Callable[[], Awaitable[V]], *, fresh: bool = False) -> "asyncio.Task[V]":
        """The question under way, begun if there is none. fresh: begun in any case."""
        task = self._asked.get(key)
        if task is None or fresh:
            task = self._asked[key] = asyncio.create_task(self._ask(key, review))
            task.add_done_callback(_heard)
        return task

    async def close(self) -> None:
        """Give up the questions under way."""
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
    """A failure that nothing waits for any more is no news."""
    if not task.cancelled():
        task.exception()
