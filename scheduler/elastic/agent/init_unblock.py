"""What is done from outside for a child that waits for its peers inside Horovod's `init`.

Inside `init` gloo (of Horovod 0.28.1, `transport/tcp/pair.cc`) makes a listening socket for each peer, and publishes the
addresses. Of two members the one with the lower address waits until the other connects: five times the collective
time-out, 50 s by default. A peer that has died never comes. gloo takes the first connection for the peer, and one that
ends at once for its end. So the agent connects and closes: gloo gives up as it would have in the end.
Once both sides are connected the socket is closed, and before that no member is out of `init`. So this changes nothing
for a child that got through.

Lives here: where gloo listens, read off what it publishes, and the connection, in a thread of its own: an address may not
answer. Never here: when (`agent`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Iterable, Sequence, Tuple

from .retry import Say

ENTRY = 136
"""Bytes of one address: a sockaddr_storage and a number that TCP has no use for."""

HEAD = struct.Struct("=H2s4s16sI")
"""The begin of a sockaddr_storage: family, port, IPv4 address (IPv6: flow), IPv6 address, and its interface."""

PATIENCE = 0.5
"""Seconds for a connection to an address of our own pod; tenths of a millisecond where no firewall swallows it."""

Place = Tuple[int, Tuple[str, int], int]
"""Family of addresses; host and port; and the interface, where an IPv6 address needs one."""


def places(value: bytes) -> tuple[Place, ...]:
    """Where gloo listens, if this value says so; any other value says nothing."""
    if len(value) % ENTRY:
        return ()
    found = tuple(_place(value[start : start + ENTRY]) for start in range(0, len(value), ENTRY))
    return tuple(one for one in found if one is not None) if None not in found else ()


def _place(entry: bytes) -> Place | None:
    family, port, short, long, interface = HEAD.unpack_from(entry)
    number = int.from_bytes(port, "big")
    if family == socket.AF_INET:
        return family, (socket.inet_ntop(family, short), number), 0
    if family == socket.AF_INET6:
        return family, (socket.inet_ntop(family, long), number), interface
    return None


def knock(doors: Iterable[Place]) -> int:
    """Connect to each, and close; how many were opened. Ends with the first that does not even refuse."""
    opened = 0
    for family, address, interface in doors:
        try:
            with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as caller:
                caller.settimeout(PATIENCE)
                caller.connect(address if family == socket.AF_INET else (*address, 0, interface))
        except socket.timeout:
            break
        except OSError:
            continue
        opened += 1
    return opened


def unblock(number: int, doors: Sequence[Place], say: Say) -> None:
    """End the waits of a child inside `init` in round `number`, of which a member has died."""
    opened = knock(doors)
    if opened:
        say(f"round {number}: a member has ended before all had met; {opened} waits for peers ended")
