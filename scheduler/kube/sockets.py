"""The sockets of the connections to the API server: whether the other machine is still there, the kernel asks by
itself.

Lives here: how often. Never here: what follows from silence. A watch on which nothing happens is silent for a minute,
and who waits so long for a bookmark believes for so long in a stream whose other end was switched off, or forgotten by
a firewall between. The kernel's questions carry nothing, and are answered without the API server. Who answers them in
its stead and passes nothing on, as a proxy may, is found out by a look from beside (`vigil`).
"""

import socket
from collections.abc import Mapping
from typing import Final

import aiohttp

PROBES: Final[Mapping[str, int]] = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
"""Seconds of silence until it is asked, seconds between two questions, and how many may stay without an answer: a
machine that is gone is known to be gone after 11 s. Where the kernel knows no such word its own figures count, which
may be hours."""


def probed(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that breaks when the other machine does not answer any more; of use as a `socket_factory`."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
