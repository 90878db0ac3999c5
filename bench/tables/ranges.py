"""What each figure of a table must be: read from `ranges.toml`, and compared with what was measured.

A range is written `figure = { low = 1.0, high = 2.0, why = "where the bounds come from" }` under `[PROFILE.TABLE]`.
"""

import json
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.tables.table import Profile, Table

PATH: Final = Path(__file__).parent / "ranges.toml"
MARGIN: Final = 0.2
"""Of the mean: how far a proposed range reaches for a figure that differs from run to run."""

EXACT: Final = 0.005
"""Of the figure: how far a proposed range reaches for a figure that is the same in each run."""


class RangesError(ValueError):
    """Ranges that are not of this form, or of a table or figure that does not exist."""


@dataclass(frozen=True, slots=True)
class Range:
    """Both bounds are inside. why: where they come from."""

    low: float
    high: float
    why: str


@dataclass(frozen=True, slots=True)
class Outside:
    """A figure outside its range."""

    figure: str
    value: float
    range: Range


Ranges = Mapping[str, Mapping[str, Range]]
"""By table and figure."""


def read(profile: Profile, tables: Sequence[str], path: Path = PATH) -> Ranges:
    """The ranges of a profile.  Raises RangesError."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RangesError(f"{path}: cannot be read: {error}") from error
    for name in found:
        if name not in list(Profile):
            raise RangesError(f"{path}: {name}: unknown profile. Use one of {', '.join(Profile)}.")
        for table in found[name]:
            if table not in tables:
                raise RangesError(f"{path}: {name}.{table}: unknown table. Use one of {', '.join(tables)}.")
    return {
        table: {figure: _range(f"{path}: {profile}.{table}.{figure}", row) for figure, row in rows.items()}
        for table, rows in found.get(profile, {}).items()
    }


def _range(where: str, row: Any) -> Range:
    if not isinstance(row, dict) or set(row) != {"low", "high", "why"}:
        raise RangesError(f"{where}: must be a table of low, high and why.")
    if not all(isinstance(row[key], int | float) for key in ("low", "high")) or not row["low"] <= row["high"]:
        raise RangesError(f"{where}: low and high must be numbers, and low at most high.")
    return Range(float(row["low"]), float(row["high"]), str(row["why"]))


def outside(table: Table, own: Mapping[str, Range]) -> list[Outside]:
    """The figures of the table outside their ranges.  Raises RangesError for a range of an unknown figure."""
    unknown = [name for name in own if name not in table.figures]
    if unknown:
        raise RangesError(
            f"{PATH.name}: {', '.join(unknown)}: not found among the figures of the table. Correct or remove it."
        )
    return [
        Outside(name, table.figures[name], bounds)
        for name, bounds in own.items()
        if not bounds.low <= table.figures[name] <= bounds.high
    ]


def proposal(reports: Sequence[Path]) -> Iterator[str]:
    """Lines of `ranges.toml` for the figures of these reports (`report.json`).  Raises RangesError."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in reports:
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            for name, record in report["tables"].items():
                for figure, value in record["table"]["figures"].items():
                    found[report["profile"], name][figure].append(value)
        except (OSError, ValueError, KeyError) as error:
            raise RangesError(f"{path}: not a report: {error}") from error
    for (profile, name), figures in found.items():
        yield f"[{profile}.{name}]"
        yield from (_proposed(figure, values) for figure, values in figures.items())
        yield ""


def _proposed(figure: str, values: Sequence[float]) -> str:
    mean, same = statistics.fmean(values), min(values) == max(values)
    reach = max(abs(mean) * (EXACT if same else MARGIN), 0.001)
    why = (
        f"deterministic: the same in {len(values)} runs"
        if same
        else f"mean {mean:.4g} of {len(values)} runs, ± 20%"
    )
    low, high = min(*values, mean - reach), max(*values, mean + reach)
    return f'{figure} = {{ low = {low:.6g}, high = {high:.6g}, why = "{why}" }}'
