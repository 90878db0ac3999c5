"""A table that is asked for every two seconds: drawn in place on a terminal, else printed when it has changed.

Lives here: the pace, and what follows an error. Never here: what the table shows, or where it comes from.
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
"""Seconds between two questions."""


def follow(look: Callable[[], tuple[Table, object]]) -> None:
    """Show what `look` finds until the person interrupts it.

    look: the table, and what differs when the table has changed. Raises GangwrightError when the first look does. A
    later error is noted once, and the question is asked again.
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
                    screen.note(f"no answer, asking again: {error}")
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
