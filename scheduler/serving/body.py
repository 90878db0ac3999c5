"""Request bodies, bounded one by one and all together.

Lives here: how much is read, and when reading stops. Never here: what a body says.

Why a bound on all of them: each connection may hold a body whose rest never comes, and memory is limited. A body that
is here with its head does not count, so small ones are read even while large ones hold all there is.
"""

from collections import Counter
from typing import Final

from aiohttp import web

SHARE: Final = 4
"""One source may hold this part of the budget, one divided by it."""


class TooLarge(Exception):  # noqa: N818 - a word of HTTP
    """The body is larger than it may be."""


class Crowded(Exception):  # noqa: N818 - a word of the field
    """Too many bodies are being read at a time, of this source or of all."""


class Bodies:
    """Reads bodies of `budget` bytes together at the most, what is half read included."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._of: Counter[str] = Counter()
        self.held = 0
        """Bytes of all bodies that are being read."""

    async def read(self, request: web.Request, limit: int, source: str = "") -> bytes:
        """The whole body, of at most `limit` bytes. source: who sends it, where one must not hold up the others.

        Raises TooLarge or Crowded as soon as it is known.
        """
        if (request.content_length or 0) > limit:
            raise TooLarge
        first = await request.content.readany()
        if len(first) <= limit and request.content.at_eof():
            return first
        return await self._rest(request, bytearray(first), limit, source)

    async def _rest(self, request: web.Request, body: bytearray, limit: int, source: str) -> bytes:
        """The body that begins like this; counted before its next part is waited for, which may never come."""
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
