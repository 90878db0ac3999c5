"""The command line, and the only composition root: it reads settings and assembles the programs."""

from scheduler.cli.command_line import main

__all__ = ["main"]
