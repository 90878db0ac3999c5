"""`agent -- COMMAND…`: from arguments and environment to a running agent, both from the package and from the archive.

The child's PYTHONPATH begins with the archive of this package. Its `sitecustomize` activates `runtime` in every Python
that the command starts, so an unmodified script works, behind any shell. `python -I`, `-E` and `-S` ignore PYTHONPATH
or sitecustomize: such a command trains alone, and the agent warns of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from .agent import Agent
from .agent_errors import SettingsError
from .agent_settings import read

WRONG = 2
"""Exit code for wrong usage, as of every Gangwright command."""

PYTHON = re.compile(r"python[\d.]*")
ISOLATING = "IES"
"""Options of Python that ignore PYTHONPATH (I, E) or sitecustomize (S)."""

OPTIONS = re.compile(r"-([^cmWX-]*)([cm]?)([WX]?)")
"""Letters of one argument of options, up to one that begins the program (c, m) or takes a value (W, X)."""

USAGE = "usage: agent -- COMMAND [ARGUMENT…]    for example: agent -- python train.py"

PERMANENT = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
"""Variables for the child, unless they are set. Unbuffered output, because a pipe would hold back what was printed
before a crash; and the stacks of all threads when Horovod aborts the process or the agent asks where it hangs."""


def main(words: Sequence[str]) -> int:
    """Run the command; the exit code. Two dashes before the command are optional."""
    command = list(words[1:] if words[:1] == ["--"] else words)
    if not command or not command[0]:
        return _wrong(f"a command is required\n{USAGE}")
    try:
        settings = read(os.environ)
    except SettingsError as error:
        return _wrong(str(error))

    def say(text: str) -> None:
        line = f"gangwright agent {settings.pod}: {text}\n"
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, line.encode("utf-8", "replace"))

    option = isolated(command)
    if option:
        say(
            f"{command[0]} {option} bypasses the agent: this training can neither report nor join. Remove {option}"
        )
    with archive() as pack:
        try:
            agent = Agent(settings, command, environment(os.environ, pack), say)
        except SettingsError as error:
            return _wrong(str(error))
        return agent.run()


def environment(ours: Mapping[str, str], pack: str) -> dict[str, str]:
    """The child's environment, before it has a shim: the agent's, with the archive first on PYTHONPATH."""
    theirs = ours.get("PYTHONPATH", "")
    return {
        **PERMANENT,
        **ours,
        "PYTHONPATH": pack + os.pathsep + theirs if theirs else pack,
        "GANGWRIGHT_PACK": pack,
        "GANGWRIGHT_PARENT": str(os.getpid()),
    }


def isolated(command: Sequence[str]) -> str | None:
    """The option of this Python command that bypasses the archive; None if there is none."""
    words = iter(command)
    if not PYTHON.fullmatch(Path(next(words)).name):
        return None
    for word in words:
        if word in {"-", "--"} or not word.startswith("-"):
            return None
        options, program, value = OPTIONS.match(word).groups()  # type: ignore[union-attr]
        found = next((letter for letter in options if letter in ISOLATING), None)
        if found:
            return f"-{found}"
        if program:
            return None
        if value and word.endswith(value):
            next(words, None)
    return None


@contextmanager
def archive() -> Iterator[str]:
    """The archive of this package: the one that the agent runs from, or a temporary one."""
    from_archive = getattr(globals().get("__loader__"), "archive", None)
    if from_archive:
        yield str(Path(from_archive).resolve())
        return
    from .archive import build

    with tempfile.TemporaryDirectory(prefix="gangwright-") as folder:
        place = Path(folder) / "agent.pyz"
        build(place)
        yield str(place)


def _wrong(text: str) -> int:
    sys.stderr.write(f"gangwright agent: {text}\n")
    return WRONG
