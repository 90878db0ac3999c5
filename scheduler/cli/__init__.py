"""The command line, and the only composition root: here settings are read, and the program is put together."""

from scheduler.cli.command_line import main

__all__ = ["main"]
