"""The sockets of the connections to the API server: whether the other machine is still there, the kernel asks by
itself.

Lives here: how often, and that none outlives its client. Never here: what follows from silence. A watch on which nothing happens is silent for a minute,
and who waits so long for a bookmark believes for so long in a stream whose other end was switched off, or forgotten by
a firewall between. The kernel's questions carry nothing, and are answered without the API server. Who answers them in
its stead and passes nothing on, as a proxy may, is found out by a look from beside (`watch_probe`).
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import aiohttp

PROBES: Final[Mapping[str, int]] = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
"""Seconds of silence until it is asked, seconds between two questions, and how many may stay without an answer: a
machine that is gone is known to be gone after 11 s. Where the kernel knows no such word its own figures count, which
may be hours."""


LOOK: Final = 0.002
"""Seconds between two looks at what is still open: a turn of the event loop closes it."""

LOOKS: Final = 500
"""Looks at most: a second, in which every event loop that still turns has closed its sockets."""


class Sockets:
    """The sockets of one client. Closing TLS goes on after the call has returned: asyncio waits for the other side's
    farewell, up to 30 s, and an event loop that ends meanwhile leaves the socket behind.
    """

    def __init__(self) -> None:
        self._made: list[socket.socket] = []

    def make(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """A socket that breaks when the other machine does not answer any more; of use as a `socket_factory`."""
        made = _probed(address)
        self._made = [*self._open(), made]
        return made

    async def close(self) -> None:
        """End what still says farewell; all are closed when this returns."""
        for one in self._open():
            with suppress(OSError):  # the other side was quicker
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(LOOKS):
            if not self._open():
                return
            await asyncio.sleep(LOOK)

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]


def _probed(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
