"""Says on stderr that something long is going on: a spinner for a person, a line now and then for a log."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

INTERVAL = 20.0
"""Seconds between two lines of a log: CI systems end jobs that are silent for minutes."""


@contextmanager
def doing(what: str, *, interval: float = INTERVAL) -> Iterator[None]:
    """Shows `what` and the time it takes for as long as the block runs."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True) as bar:
            bar.add_task(what, total=None)
            yield
        return
    with _lines(what, interval):
        yield


@contextmanager
def _lines(what: str, interval: float) -> Iterator[None]:
    begun, over = time.monotonic(), threading.Event()
    _say(f"{what} …")

    def repeat() -> None:
        while not over.wait(interval):
            _say(f"{what} … {time.monotonic() - begun:.0f} s so far")

    speaker = threading.Thread(target=repeat, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()
    _say(f"{what}: done in {time.monotonic() - begun:.0f} s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
