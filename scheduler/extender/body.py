"""Request bodies, bounded one by one and all together.

Lives here: how much is read, and when reading stops. Never here: what a body says.

Why a bound on all of them: kube-scheduler has one or two calls under way, but whoever else reaches the port can
hold a body on every connection, and our memory is limited.
"""

from collections.abc import Callable
from typing import Final

from aiohttp import web

from scheduler.extender.wire import WireError

TOO_LARGE: Final = "the body is too large: is nodeCacheCapable: true set on the extender of kube-scheduler?"
CROWDED: Final = "gangwright reads too many bodies at a time"


def body_limit(nodes: int, pods: int, ceiling: int) -> int:
    """Bytes that a call over so many nodes and pods may have: names of the longest kind, uids, and one large pod.

    256 bytes a node name (253 and quotes), 64 a victim, 4 MiB for the pod (the API's own limit is 3 MiB a request).
    """
    return min(4 * 2**20 + 256 * nodes + 64 * pods, ceiling)


class Bodies:
    """Reads bodies of at most `limit()` bytes each and `budget` bytes together, what is half read included."""

    def __init__(self, limit: Callable[[], int], budget: int) -> None:
        self._limit = limit
        self._budget = budget
        self.held = 0
        """Bytes of all bodies that are being read."""

    async def read(self, request: web.Request) -> bytes:
        """The whole body. Raises WireError as soon as it is known to be too large."""
        limit = self._limit()
        if (request.content_length or 0) > limit:
            raise WireError(TOO_LARGE)
        first = await request.content.readany()
        if len(first) <= limit and request.content.at_eof():
            return first
        return await self._rest(request, bytearray(first), limit)

    async def _rest(self, request: web.Request, body: bytearray, limit: int) -> bytes:
        """The body that begins like this; counted before its next part is waited for, which may never come."""
        counted = 0
        try:
            while True:
                self.held += len(body) - counted
                counted = len(body)
                if counted > limit:
                    raise WireError(TOO_LARGE)
                if self.held > self._budget:
                    raise WireError(CROWDED)
                if not (chunk := await request.content.readany()):
                    return bytes(body)
                body += chunk
        finally:
            self.held -= counted
