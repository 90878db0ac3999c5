"""Unblocks a child that waits for its peers inside Horovod's `init`.

Inside `init` gloo (of Horovod 0.28.1, `transport/tcp/pair.cc`) creates a listening socket for each peer, and publishes
the addresses. Of two members, the one with the lower address waits until the other connects: five times the collective
timeout, 50 s by default. A peer that has died never connects. gloo treats the first connection as the peer, and its
immediate end as the peer's end. So the agent connects and closes, and gloo gives up as it would have after the timeout.
Once both sides are connected the socket is closed, and before that no member leaves `init`. So this changes nothing for
a child that has completed `init`.

Lives here: the addresses at which gloo listens, parsed from the values that it publishes, and the connection, in its
own thread, because an address may not answer. Never here: when to do it (`agent`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Iterable, Sequence, Tuple

from .retry import Say

ENTRY = 136
"""Bytes of one address: a sockaddr_storage and a number that TCP does not use."""

HEAD = struct.Struct("=H2s4s16sI")
"""Start of a sockaddr_storage: family, port, IPv4 address (IPv6: flow), IPv6 address, and its interface."""

PATIENCE = 0.5
"""Seconds for a connection to an address of the own pod; it takes tenths of a millisecond if no firewall drops it."""

Place = Tuple[int, Tuple[str, int], int]
"""Address family; host and port; and the interface, if an IPv6 address needs one."""


def places(value: bytes) -> tuple[Place, ...]:
    """The addresses at which gloo listens, from a value that it publishes; empty for any other value."""
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
    """Connect to each address, and close; the number of connections. Stops at the first that times out."""
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
    """End the waits of a child inside `init` in round `number`, in which a member has died."""
    opened = knock(doors)
    if opened:
        say(f"round {number}: a member ended before all had met. Aborted waits for peers: {opened}")
