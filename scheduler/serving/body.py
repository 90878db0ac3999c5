"""Request bodies, bounded one by one and all together.

Lives here: how much is read, and when reading stops. Never here: the content of a body.

Why a bound on all of them: each connection may hold a body whose rest never arrives, and memory is limited. A body that
arrives together with its head does not count, so small bodies are read even while large ones use the whole budget.
"""

from collections import Counter
from typing import Final

from aiohttp import web

SHARE: Final = 4
"""One source may hold at most 1/SHARE of the budget."""


class TooLarge(Exception):  # noqa: N818 - a word of HTTP
    """The body exceeds its limit."""


class Crowded(Exception):  # noqa: N818 - a word of the field
    """Too many bodies are being read at a time, from this source or in total."""


class Bodies:
    """Reads bodies. All bodies that are being read hold at most `budget` bytes together."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._of: Counter[str] = Counter()
        self.held = 0
        """Bytes of all bodies that are being read."""

    async def read(self, request: web.Request, limit: int, source: str = "") -> bytes:
        """The whole body, of at most `limit` bytes. source: the sender, if one sender must not block the others.

        Raises TooLarge or Crowded as early as possible.
        """
        if (request.content_length or 0) > limit:
            raise TooLarge
        first = await request.content.readany()
        if len(first) <= limit and request.content.at_eof():
            return first
        return await self._rest(request, bytearray(first), limit, source)

    async def _rest(self, request: web.Request, body: bytearray, limit: int, source: str) -> bytes:
        """The body that starts with `body`. Its bytes are counted before the next part, which may never arrive."""
        counted = 0
        try:
            while True:
                more, counted = len(body) - counted, len(body)
                self.held += more
                self._of[source] += more
                if counted > limit:
                    raise TooLarge
                if self.held > self._budget or (source and self._of[source] * SHARE > self._budget):
                    raise Crowded
                if not (chunk := await request.content.readany()):
                    return bytes(body)
                body += chunk
        finally:
            self.held -= counted
            self._of[source] -= counted
            if not self._of[source]:
                del self._of[source]
