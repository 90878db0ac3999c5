"""What processes printed so far, read piece by piece as it grows."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.plane.errors import NeverCameError

Line = dict[str, Any]

POLL = 0.05
"""Seconds between two looks at the files. Nothing measured depends on it: every line carries its own time."""


class Output:
    """The output files of a job's processes, now and those to come.

    files: gives all there are; each is a process of its own. Every line that ends with a JSON object is that object,
    with `worker` beside its words; other lines are kept as `{"said": …}`.
    """

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._read: dict[Path, int] = {}
        self._rest: dict[Path, bytes] = {}
        self.lines: list[Line] = []

    def read(self) -> list[Line]:
        """What is new. One worker's lines are in order."""
        fresh = [line for place in self._files() for line in self._more(place)]
        self.lines += fresh
        return fresh

    def until(
        self,
        holds: Callable[[], object],
        within: float,
        what: str,
        alive: Callable[[], object] = lambda: True,
    ) -> None:
        """Reads on until it holds. Raises NeverCameError with the last lines."""
        end = time.monotonic() + within
        while not holds():
            if time.monotonic() > end or not alive():
                raise NeverCameError(f"{what}: not within {within:g} s\n{self.story()}")
            time.sleep(POLL)
            self.read()

    def story(self, last: int = 40) -> str:
        said = [str(line.get("said") or line) for line in self.lines]
        return "\n".join(said[-last:])

    def steps(self) -> list[Line]:
        return [line for line in self.lines if "step" in line and "at" in line]

    def _more(self, place: Path) -> list[Line]:
        with place.open("rb") as file:
            file.seek(self._read.get(place, 0))
            content = file.read()
        self._read[place] = self._read.get(place, 0) + len(content)
        *whole, self._rest[place] = (self._rest.get(place, b"") + content).split(b"\n")
        return [parsed(line.decode(errors="replace"), place) for line in whole if line.strip()]


def parsed(line: str, place: Path) -> Line:
    """worker: the name of the folder that the file is in."""
    start = line.find("{")
    try:
        found = json.loads(line[start:]) if start >= 0 else None
    except ValueError:
        found = None
    return {**(found if isinstance(found, dict) else {"said": line}), "worker": place.parent.name}
