"""The connections: how many there may be, and how slow.

Lives here: what aiohttp's server does not bound: connections at a time, and the time for a request's head. Never
here: HTTP; a door passes bytes on to the protocol behind it.

Why closed rather than refused when full: kube-scheduler must always get in. So the newcomer stays, and out goes
the connection that has never asked anything, else the one that was quiet for longest.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

HEAD_LIMIT: Final = 5.0
"""Seconds from the first byte of a request until its head is complete; on loopback it is one segment."""


class Doors:
    """Makes one Door a connection; give it to `loop.create_server`.

    make: the protocol behind the door, such as aiohttp's server. handshake_limit: with TLS, the seconds after which
    a handshake must have ended one way or the other. admit: whether the peer may stay, asked once when the
    connection (and its TLS) stands. closed: told the cause of every connection that was cut or refused.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        *,
        most: int,
        head_limit: float = HEAD_LIMIT,
        handshake_limit: float | None = None,
        admit: Callable[[asyncio.BaseTransport], bool] = lambda _: True,
        closed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._make = make
        self._most = most
        self.head_limit = head_limit
        self.handshake_limit = handshake_limit
        self.admit = admit
        self.closed = closed
        self.open: dict[Door, None] = {}

    def __call__(self) -> "Door":
        return Door(self._make(), self)

    def make_room(self) -> None:
        """Close one connection if there are as many as may be."""
        if len(self.open) < self._most:
            return
        idle = [door for door in self.open if not door.busy]
        victim = min(idle or self.open, key=lambda door: (door.served > 0, door.last))
        victim.close("full")


class Door(asyncio.Protocol):
    """One connection. `begin` and `finish` are called around each request by whoever handles it."""

    def __init__(self, inner: asyncio.Protocol, doors: Doors) -> None:
        self._inner = inner
        self._doors = doors
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.busy = False
        self.served = 0
        self.last = 0.0
        """When it was last heard of, by the loop's clock."""
        if doors.handshake_limit is not None:
            # A handshake that fails is told to nobody: asyncio drops the protocol. Only the silence is left to notice.
            self._timer = self._loop.call_later(doors.handshake_limit, doors.closed, "handshake")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stop_timer()
        self._transport = transport
        self.last = self._loop.time()
        if not self._doors.admit(transport):
            self.close("certificate")
            return
        self._doors.make_room()
        self._doors.open[self] = None
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self not in self._doors.open:
            return
        if not self.busy and self._timer is None:
            self._timer = self._loop.call_later(self._doors.head_limit, self.close, "slow")
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self in self._doors.open else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self in self._doors.open:
            del self._doors.open[self]
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def begin(self) -> None:
        """A request's head is complete."""
        self._stop_timer()
        self.busy = True

    def finish(self) -> None:
        """The request was answered."""
        self.busy = False
        self.served += 1
        self.last = self._loop.time()

    def close(self, cause: str) -> None:
        """Cut the connection, without waiting for what it might still have to say."""
        self._stop_timer()
        self._doors.closed(cause)
        transport: Any = self._transport
        transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
