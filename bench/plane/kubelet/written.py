"""When what stands in a log was written: a container writes into its file itself, so looks at it tell.

Lives here: how large the file was, and when. Never here: what is in it.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Never

from scheduler.clock import steady

LOOK: Final = 0.1
"""Seconds between two looks: those who ask for the last lines do so in whole seconds."""


class Written:
    """The growth of one log. Every byte is noted up to `LOOK` late."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._marks: list[tuple[float, int]] = []

    async def keep(self) -> Never:
        """Look again and again until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK)

    def look(self) -> None:
        size = self._log.stat().st_size if self._log.exists() else 0
        if size > self._until(len(self._marks)):
            self._marks.append((steady(), size))

    def since(self, seconds: float) -> int:
        """How much of the file is older than so many seconds, in bytes."""
        return self.before(steady() - seconds)

    def before(self, then: float) -> int:
        """How much of the file was written before, in bytes. then: seconds since the epoch."""
        return self._until(sum(at < then for at, _ in self._marks))

    def at(self, place: int) -> float:
        """When the byte there was noted, in seconds since the epoch: the same whenever it is asked."""
        if place >= self._until(len(self._marks)):
            self.look()
        return next(at for at, size in self._marks if place < size)

    def _until(self, mark: int) -> int:
        return self._marks[mark - 1][1] if mark else 0


class Stamps:
    """Puts before each line when its first byte was noted, as kubelet does. place: of the first byte that comes."""

    def __init__(self, written: Written, place: int) -> None:
        self._written = written
        self._place = place
        self._fresh = True

    def put(self, text: bytes) -> bytes:
        """What comes next in the log, with the times in it; a line may come in several pieces."""
        return b"".join(self._stamped(line) for line in text.splitlines(keepends=True))

    def _stamped(self, line: bytes) -> bytes:
        moment = datetime.fromtimestamp(self._written.at(self._place), UTC)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() if self._fresh else b""
        self._place += len(line)
        self._fresh = line.endswith(b"\n")
        return stamp + line
