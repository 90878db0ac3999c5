"""Questions that wait for their answer: how many of one worker, and one of each kind.

Lives here: the bound, and the rule that who asks the same again takes the place of his own earlier question; its
connection is most likely gone. Never here: what is waited for.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

from scheduler.elastic.rendezvous.worker_messages import Reason, Refused

T = TypeVar("T")


class Waits:
    """most: questions of one worker at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[Hashable, asyncio.Task[Any]]] = {}
        self._closed = False
        self.count = 0

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
        self.count += 1
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
            self.count -= 1
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
