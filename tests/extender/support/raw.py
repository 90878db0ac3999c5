"""HTTP by hand over a socket: what a well-behaved client library would never send."""

import asyncio
import socket
import ssl
import struct
from dataclasses import dataclass, field


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Raw:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answers: list[Answer] = field(default_factory=list)

    @classmethod
    async def to(cls, port: int, **tls) -> "Raw":
        return cls(*await asyncio.open_connection("127.0.0.1", port, **tls))

    async def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))
        await self.writer.drain()

    async def answer(self) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        body = await self.reader.readexactly(int(headers["Content-Length"]))
        found = Answer(int(first.split()[1]), headers, body)
        self.answers.append(found)
        return found

    async def ask(self, *parts: bytes) -> Answer:
        await self.send(*parts)
        return await self.answer()

    async def ended(self) -> bool:
        """The other side closed, one way or another."""
        try:
            return await self.reader.read() == b""
        except (ConnectionError, ssl.SSLError):
            return True

    def segments(self) -> int:
        """TCP segments with data that arrived, as the kernel counts them."""
        sock = self.writer.get_extra_info("socket")
        return struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232), 152)[0]

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            return


def request(
    body: bytes = b"", path: str = "/v1/filter", method: str = "POST", headers: dict[str, str] | None = None
) -> bytes:
    """A request as Go's client writes it; a header of value "" is left out."""
    usual = {
        "Host": "127.0.0.1",
        "User-Agent": "Go-http-client/1.1",
        "Content-Length": str(len(body)),
        "Content-Type": "application/json",
        "Accept-Encoding": "gzip",
    } | (headers or {})
    lines = "".join(f"{name}: {value}\r\n" for name, value in usual.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body
