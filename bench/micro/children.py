"""Child processes of the bench: they say on standard output what is to be known, and end when we do, or by themselves."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

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


def started(module: str, *words: str, given: Any) -> "subprocess.Popen[str]":
    """`python -m MODULE WORD…`, which reads what is given as JSON. Ctrl-C in a terminal is not for it: kill it."""
    peer = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert peer.stdin is not None
    peer.stdin.write(json.dumps(given))
    peer.stdin.close()
    peer.stdin = None
    return peer


def said(peer: "subprocess.Popen[str]", within: float) -> dict[str, Any]:
    """The JSON that it prints before it ends. Raises CalledProcessError, or TimeoutExpired after so many seconds."""
    out, _ = peer.communicate(timeout=within)
    if peer.returncode:
        raise subprocess.CalledProcessError(peer.returncode, peer.args)
    found: dict[str, Any] = json.loads(out)
    return found
