"""A measured table as a file of JSON, and where and how it was measured."""

import json
import math
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.tables.table import Chart, Profile, Series, Table

ROOT: Final = Path(__file__).parents[2]
SHOWN_BY: Final = ("ranges.toml", "document.py", "pictures.py")
"""Files beside this one that change what is shown of a table, and not what is measured."""

CODE: Final = ("bench", "scheduler", ":!bench/*.md", *(f":!bench/tables/{name}" for name in SHOWN_BY))
"""What a table rests on, as Git's patterns."""


class TableError(ValueError):
    """A table that the report cannot show, or a file that holds none."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a table was measured with.

    commit: the last one that changed `bench` or `scheduler`, with a plus sign if their files differ from it. None:
    the code is not in a Git repository.
    """

    commit: str | None
    python: str
    numpy: str
    cores: int

    @classmethod
    def here(cls) -> "Origin":
        return cls(_commit(), platform.python_version(), np.__version__, os.cpu_count() or 1)


def _commit() -> str | None:
    found = _git("log", "-1", "--format=%h", "--", *CODE)
    return f"{found}{'+' if _git('status', '--porcelain', '--', *CODE) else ''}" if found else None


def _git(*words: str) -> str:
    """What git prints. Empty: no git, or no repository."""
    program = shutil.which("git")
    if program is None or not (ROOT / ".git").exists():
        return ""
    done = subprocess.run([program, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if not done.returncode else ""


@dataclass(frozen=True, slots=True)
class Record:
    """A table that was measured. seconds: of wall-clock time."""

    name: str
    profile: Profile
    table: Table
    seconds: float
    origin: Origin

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def checked(table: Table) -> Table:
    """The table itself.  Raises TableError for a row, series or figure that the report cannot show."""
    for place, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise TableError(
                f"rows[{place}]: {len(row)} cells. There must be {len(table.columns)}, one a column."
            )
    for name, figure in table.figures.items():
        if not math.isfinite(figure):
            raise TableError(f"figures.{name}: {figure}: must be finite.")
    for chart in table.charts:
        if not any(len(series.x) for series in chart.series):
            raise TableError(f"charts: {chart.y}: must have a series with a point.")
        kinds = {isinstance(x, str) for series in chart.series for x in series.x}
        if len(kinds) > 1:
            raise TableError(f"charts: {chart.y}: x must be texts alone or numbers alone.")
        for series in chart.series:
            if len(series.x) != len(series.y) or len(series.error) not in {0, len(series.y)}:
                raise TableError(
                    f"charts: {chart.y}: {series.name}: x, y and error must have the same length."
                )
    return table


def write(record: Record, folder: Path) -> None:
    """Whole or not at all."""
    write_text(folder / f"{record.name}.json", json.dumps(record.as_json(), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read(name: str, folder: Path) -> Record | None:
    """None: not measured yet, or the file is of another version of this module, which standard error says."""
    path = folder / f"{name}.json"
    try:
        return _record(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        print(f"{path}: cannot be read ({error}). The table is measured again.", file=sys.stderr, flush=True)
        return None


def _record(found: dict[str, Any]) -> Record:
    table = dict(found["table"])
    charts = [
        Chart(c["x"], c["y"], [Series(**series) for series in c["series"]]) for c in table.pop("charts")
    ]
    return Record(
        found["name"],
        Profile(found["profile"]),
        checked(Table(**table, charts=charts)),
        found["seconds"],
        Origin(**found["origin"]),
    )
