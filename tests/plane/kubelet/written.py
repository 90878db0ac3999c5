"""When what stands in a log was written: a container writes into its file itself, so looks at it tell.

Lives here: how large the file was, and when. Never here: what is in it.
"""

import asyncio
import time
from pathlib import Path
from typing import Final, Never

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
            self._marks.append((time.monotonic(), size))

    def since(self, seconds: float) -> int:
        """How much of the file is older than so many seconds, in bytes."""
        then = time.monotonic() - seconds
        return self._until(sum(at < then for at, _ in self._marks))

    def _until(self, mark: int) -> int:
        return self._marks[mark - 1][1] if mark else 0
