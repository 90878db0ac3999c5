"""A user's shell: the command line, run as any user would run it, with a kubeconfig and nothing else."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from bench.demo.screen import indented
from bench.demo.stage import Stage

LIMIT = 60.0
"""Seconds for one command; it takes one or two on an idle machine."""


@dataclass(frozen=True)
class Said:
    """What a command wrote, and how it ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """None when it is none."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None


async def run(stage: Stage, *words: str) -> Said:
    """`gangwright WORDS`, asked of this plane. Raises TimeoutError."""
    kubeconfig = str(stage.gangwright.plane.kubeconfig())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": kubeconfig, "NO_COLOR": "1"},
    )
    try:
        async with asyncio.timeout(LIMIT):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Said(words, process.returncode or 0, out.decode(), err.decode())


def show(stage: Stage, said: Said, paragraphs: int | None = None) -> None:
    """As it looked in the terminal; of a long answer the first paragraphs."""
    every = (said.out + said.err).rstrip().split("\n\n")
    kept = every[:paragraphs]
    lines = [line.rstrip() for line in "\n\n".join(kept).splitlines()] + ["…"] * (len(kept) < len(every))
    command = Text.assemble(("$ ", "dim"), (f"gangwright {' '.join(said.words)}", "bold"))
    stage.console.print(indented(Group(command, *(Text(line, style="italic") for line in lines), Text())))
