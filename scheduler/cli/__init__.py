"""The command line, and the only composition root: here settings are read, and the program is put together."""

from scheduler.cli.app import main

__all__ = ["main"]
