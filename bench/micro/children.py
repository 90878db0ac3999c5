"""Child processes of the bench: they say on standard output what is to be known, and end when we do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GRACE = 5.0
"""Seconds between asking a child to end and ending it."""


@contextmanager
def child(module: str, *words: str) -> Iterator[dict[str, Any]]:
    """`python -m MODULE WORD…`, and the first line of JSON that it prints. Its end of standard input is its end."""
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{' '.join(command)} ended without a word")
            yield json.loads(line)
        finally:
            process.stdin.close()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
