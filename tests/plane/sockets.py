"""The sockets of a client, so that none outlives the event loop it was opened in.

Closing a TLS connection goes on after the call has returned: asyncio waits for the other side's farewell, for up to 30
s. A loop that is closed meanwhile leaves the socket behind, and pytest makes an error of each one, far from its cause.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

LOOK: Final = 0.002
"""Seconds between two looks at what is still open."""


class Sockets:
    """`make` is a connector's `socket_factory`; after the session's own `close`, `close` ends what still says
    farewell.
    """

    def __init__(self) -> None:
        self._made: list[socket.socket] = []

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._made = [*self._open(), made]
        return made

    async def close(self) -> None:
        """Every one of them is closed when this returns."""
        for one in self._open():
            with suppress(OSError):  # the other side was quicker
                one.shutdown(socket.SHUT_RDWR)
        while self._open():
            await asyncio.sleep(LOOK)

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]
