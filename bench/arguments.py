"""The command line of a measurement that can be told nothing: what it measures, or that it takes no arguments."""

import argparse
from collections.abc import Sequence


def none(module: str, told: str | None, words: Sequence[str] | None = None) -> None:
    """With --help says what is told and ends; with any other word ends with 2; without words comes back.

    words: by default those that the program was started with.
    """
    argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=f"{(told or '').strip()}\n\nIt takes no arguments.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(words)
