"""The report as Markdown. Pure: tables in, text out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Final

from bench.tables.ranges import Outside
from bench.tables.records import Record
from bench.tables.table import Cell, Profile

TITLE: Final = "Gangwright beside published figures"
NONE: Final = "–"
MOST_DECIMALS: Final = ((1000.0, 0), (100.0, 1), (1.0, 2), (0.0, 3))
"""By the largest number of a column: the decimals that it shows at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one table.

    error: why it has no record, or why its ranges could not be checked.  ranged: figures that have a range.
    pictures: file names beside the document, one a chart.
    """

    record: Record | None = None
    error: str | None = None
    outside: Sequence[Outside] = ()
    ranged: int = 0
    pictures: Sequence[str] = ()


def document(profile: Profile, outcomes: Mapping[str, Outcome]) -> str:
    """By table, in the order of the report. A table without record and error is not measured yet."""
    spent = duration(sum(one.record.seconds for one in outcomes.values() if one.record))
    parts = [
        f"# {TITLE}",
        f"Made by `python -m bench --profile {profile}` in {spent}. A dash means not published or not measured.",
        _grid(("table", "time", "figures in range"), list(starmap(_summary, outcomes.items()))),
        *_findings(outcomes),
    ]
    for name, outcome in outcomes.items():
        parts += _section(name, outcome)
    return "\n\n".join(parts) + "\n"


def _summary(name: str, outcome: Outcome) -> Sequence[Cell]:
    if outcome.record is None:
        state = "failed" if outcome.error else "not measured yet"
        return (f"[{name}](#{name})" if outcome.error else name, state, None)
    inside = outcome.ranged - len(outcome.outside)
    without = len(outcome.record.table.figures) - outcome.ranged
    told = f"{inside} of {outcome.ranged}{f', {without} without range' if without else ''}"
    title = _escaped(outcome.record.table.title)
    return (f"[{title}](#{name})", duration(outcome.record.seconds), "error" if outcome.error else told)


def _findings(outcomes: Mapping[str, Outcome]) -> list[str]:
    rows = [
        (
            name,
            one.figure,
            _plain(one.value),
            f"{_plain(one.range.low)} to {_plain(one.range.high)}",
            one.range.why,
        )
        for name, outcome in outcomes.items()
        for one in outcome.outside
    ]
    if not rows:
        return []
    return [
        "## Out of range",
        _grid(("table", "figure", "measured", "range", "where the range comes from"), rows),
    ]


def _section(name: str, outcome: Outcome) -> list[str]:
    parts = []
    if outcome.record is not None:
        table, origin = outcome.record.table, outcome.record.origin
        parts += [f'<a id="{name}"></a>', f"## {_escaped(table.title)}", table.shows]
        parts.append(_grid(table.columns, table.rows))
        parts += [
            f"![{_escaped(chart.y)} by {_escaped(chart.x)}]({path})"
            for chart, path in zip(table.charts, outcome.pictures, strict=False)
        ]
        if table.notes:
            parts.append("\n".join(f"* {note}" for note in table.notes))
        commit = f"commit {origin.commit}" if origin.commit else "no commit"
        parts.append(
            f"*`python -m bench --profile {outcome.record.profile} --only {name}`: {duration(outcome.record.seconds)}, "
            f"{commit}, Python {origin.python}, numpy {origin.numpy}, {origin.cores} cores.*"
        )
    elif outcome.error is not None:
        parts += [f'<a id="{name}"></a>', f"## {name}"]
    if outcome.error is not None:
        parts.append(f"**Failed:** {_escaped(outcome.error)}")
    return parts


def duration(seconds: float) -> str:
    """Seconds, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s" if seconds < 9.95 else f"{rest} s"


def _grid(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table of Markdown. Columns of numbers are aligned right, and their decimals below each other."""
    texts = [cells([row[place] for row in rows]) for place in range(len(columns))]
    numeric = [_numeric([row[place] for row in rows]) for place in range(len(columns))]
    heads = [_escaped(column) for column in columns]
    widths = [max(3, len(head), *map(len, own), 0) for head, own in zip(heads, texts, strict=True)]
    rule = [
        f"{'-' * (width - 1)}:" if right else "-" * width
        for width, right in zip(widths, numeric, strict=True)
    ]

    def line(row: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(heads), line(rule), *map(line, zip(*texts, strict=True))])


def cells(column: Sequence[Cell]) -> list[str]:
    """The texts of one column.

    Floats of a column share their number of decimals: as few as lose nothing, and the fewer the larger they are. If a
    number would then show as zero, every cell has decimals of its own.
    """
    floats = [cell for cell in column if isinstance(cell, float)]
    places = decimals(floats)
    own = any(value and not round(value, places) for value in floats)
    return [_text(cell, decimals([cell]) if own and isinstance(cell, float) else places) for cell in column]


def decimals(values: Sequence[float]) -> int:
    """That these numbers are shown with."""
    largest = max(map(abs, values), default=0.0)
    most = next(places for least, places in MOST_DECIMALS if largest >= least)
    return next(
        places for places in range(most + 1) if all(round(v, places) == round(v, most) for v in values)
    )


def _text(cell: Cell, places: int) -> str:
    if cell is None:
        return NONE
    if isinstance(cell, str):
        return _escaped(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.{places}f}".replace("-", "−")


def _numeric(column: Sequence[Cell]) -> bool:
    """Numbers, or texts that begin with one."""
    known = [cell for cell in column if cell is not None]
    return bool(known) and all(not isinstance(cell, str) or cell[:1] in "0123456789+-−±" for cell in known)


def _plain(value: float) -> str:
    return f"{value:.6g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
