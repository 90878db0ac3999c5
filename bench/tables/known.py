"""The tables of the report by name, in the order of the report.

A name is the module `bench.tables.NAME`, which is imported when its table is measured.
"""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from bench.tables.table import Profile, Table

Maker = Callable[[Profile, int], Table]
"""Measures a table. The number is of processes at a time."""

NAMES: Final = (
    "openb",
    "pollux",
    "tetris",
    "ffdl",
    "placement_quality",
    "burst",
    "elasticdl",
    "philly",
    "scale",
)


def _make(name: str, profile: Profile, workers: int) -> Table:
    table: Table = importlib.import_module(f"bench.tables.{name}").make(profile, workers)
    return table


MAKERS: Final[Mapping[str, Maker]] = {name: partial(_make, name) for name in NAMES}
