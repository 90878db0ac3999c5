"""What a table of the report holds, and how much of it a profile measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Cell: TypeAlias = str | float | int | None
"""None: not published, or not measured."""


class Profile(StrEnum):
    """How much is measured. `quick` takes minutes for all tables. `full` takes up to an hour for one table."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one color of a chart.

    x: places on the axis, numbers for lines and texts for bars.  error: half the 95% interval of each y, or empty.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    error: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of a table. It has bars if its places are texts, otherwise lines."""

    x: str
    y: str
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report.

    shows: one or two sentences: what the table shows, and what it does not.
    figures: by name, the numbers that the claims rest on. Ranges are checked against them.
    """

    title: str
    shows: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    figures: Mapping[str, float]
    notes: Sequence[str] = ()
    charts: Sequence[Chart] = field(default_factory=tuple)
