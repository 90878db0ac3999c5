"""A table that refreshes every two seconds: redrawn in place on a terminal, otherwise printed when it changes.

Lives here: the interval, and the handling of errors. Never here: what the table shows, or where it comes from.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Final

from rich.live import Live
from rich.table import Table

from scheduler.cli import screen
from scheduler.errors import GangwrightError

EVERY: Final = 2.0
"""Seconds between two requests."""


def follow(look: Callable[[], tuple[Table, object]]) -> None:
    """Show the result of `look` until the user interrupts it.

    look: returns the table, and a value that differs when the table has changed. Raises GangwrightError if the first
    call does. A later error is reported once, and the call is repeated.
    """
    console, failed = screen.console(), ""
    before: object = None
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with suppress(KeyboardInterrupt), live or nullcontext():
        while True:
            try:
                table, content = look()
            except GangwrightError as error:
                if before is None:
                    raise
                if failed != str(error):
                    screen.note(f"no answer, retrying: {error}")
                failed = str(error)
            else:
                if live is not None:
                    live.update(table, refresh=True)
                elif content != before:
                    if before is not None:
                        print()
                    screen.show(table)
                before, failed = content, ""
            time.sleep(EVERY)
