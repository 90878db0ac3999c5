"""The agent as one file that Python 3.8 or newer can run: `python agent.pyz -- python train.py`.

Lives here: the contents of the archive, and its bytes, which are reproducible from the sources: fixed times, fixed
order, stored and not compressed (compressors differ, and a stored archive starts faster). Used by the init container,
which copies the archive into the worker's pod, and by an agent that runs from the installed package.

    python -m scheduler.elastic.agent.archive PATH

The init container runs this module, because the import of the `gangwright` command line takes seconds on a small share
of a core, and every worker would wait for it.

    __main__.py         starts the agent
    sitecustomize.py    `sitecustomize_entry`: activates `runtime` in the training
    gangwright_agent/   the packages `agent` and `runtime` side by side, as in the source tree
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Sequence

NAME = "gangwright_agent"
"""Name of the package in the archive. Unique, because an image may contain another package named `scheduler`."""

SHEBANG = b"#!/usr/bin/env python3\n"

START = """\
import signal
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

from gangwright_agent.agent.main import main

sys.exit(main(sys.argv[1:]))
"""

LEFT_OUT = {"archive.py", "sitecustomize_entry.py"}
"""Files that the archive does not need, or that have another name there."""

BIRTHDAY = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can store."""


def build(path: Path) -> None:
    """Write the archive to `path` atomically. Raises OSError if it cannot be written."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(SHEBANG)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for name, content in sorted(_contents().items()):
                    entry = zipfile.ZipInfo(name, BIRTHDAY)
                    entry.create_system = 3  # Unix, on every build host
                    entry.external_attr = 0o100644 << 16
                    archive.writestr(entry, content)
        unfinished.chmod(0o755)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def main(words: Sequence[str]) -> int:
    """Write the archive to the given path; the exit code."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m scheduler.elastic.agent.archive PATH\n")
        return 2
    try:
        build(Path(words[0]))
    except OSError as error:
        sys.stderr.write(f"gangwright agent: {words[0]}: must be a writable path: {error.strerror}\n")
        return 2
    return 0


def _contents() -> dict[str, bytes]:
    """Name in the archive → content."""
    agent = Path(__file__).parent
    places = [place for room in (agent, agent.parent / "runtime") for place in room.rglob("*.py")]
    return {
        "__main__.py": START.encode(),
        "sitecustomize.py": (agent / "sitecustomize_entry.py").read_bytes(),
        f"{NAME}/__init__.py": b"",
        **{
            f"{NAME}/{place.relative_to(agent.parent).as_posix()}": place.read_bytes()
            for place in places
            if place.name not in LEFT_OUT
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
