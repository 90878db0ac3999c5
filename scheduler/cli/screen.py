"""What a person sees: tables, JSON, YAML, and lines, free of whatever a stranger wrote to play with the terminal.

Lives here: the one way of every text to the terminal. Texts of strangers are shown as written, never as rich's markup,
with control characters and invisible ones escaped. Never here: what is shown.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import msgspec
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler.cli.options import Form
from scheduler.status.node_schemas import Tenant
from scheduler.status.schemas import Behind, PreemptedRow, VictimRow

UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))

GAP: Final = 2
"""Blanks between two columns."""

UNBOUNDED: Final = 100_000
"""Columns of an output that is no terminal: nothing is cut or folded there."""


def printable(text: str) -> str:
    """The text with everything that a terminal would act upon, or hide, as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def console(*, errors: bool = False) -> Console:
    """The terminal; made anew each time, so that it is the one of this moment."""
    stream = sys.stderr if errors else sys.stdout
    own = Console(file=stream, soft_wrap=errors, highlight=False, markup=False, emoji=False)
    if not own.is_terminal:
        own.width = UNBOUNDED
    return own


def line(text: str, style: str = "") -> None:
    """One line of an answer."""
    console().print(Text(printable(text), style=style), soft_wrap=True)


def note(text: str) -> None:
    """One line beside the answer, on standard error."""
    console(errors=True).print(Text(printable(text), style="dim"))


def table(head: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Rows under a head, in columns; nothing but the head where there are no rows."""
    show(grid(head, rows))


def grid(head: Sequence[str], rows: Iterable[Sequence[str | Text]], *, cut: bool = False) -> Table:
    """Rows under a head, in columns. cut: on a terminal the last column ends with the line, with an ellipsis."""
    own = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for name in head:
        own.add_column(name, overflow="fold")
    made = [[cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row] for row in rows]
    if cut and (terminal := console()).is_terminal:
        widths = (max((row[at].cell_len for row in made), default=0) for at in range(len(head) - 1))
        others = sum(max(len(name), width) + GAP for name, width in zip(head, widths, strict=False))
        for row in made:
            row[-1].truncate(max(terminal.width - others, len(head[-1])), overflow="ellipsis")
    for row in made:
        own.add_row(*row)
    return own


def show(grid: Table) -> None:
    """A table, without blanks at the end of its lines."""
    shown = console()
    with shown.capture() as captured:
        shown.print(grid)
    for text in captured.get().splitlines():
        shown.file.write(text.rstrip() + "\n")
    shown.file.flush()


def span(seconds: float | None) -> str:
    """A span in its two largest units: 4m10s, 3h5m, 2d4h; a dash for none."""
    if seconds is None:
        return "-"
    left = max(0, round(seconds))
    for (large, size), (small, part) in pairwise(UNITS):
        if left >= size:
            rest = left % size // part
            return f"{left // size}{large}" + (f"{rest}{small}" if rest else "")
    return f"{left}s"


def document(value: Any, form: Form) -> bool:
    """The answer as JSON or YAML, where that is its form; whether it is."""
    if is_document := form in {Form.JSON, Form.YAML}:
        sys.stdout.write(as_json(value) if form is Form.JSON else as_yaml(value))
    return is_document


def gang_name(gang: Tenant | VictimRow | Behind) -> str:
    """A gang by its names, or by its id where they are hidden."""
    name = gang.name if isinstance(gang, Tenant) else gang.gang
    return f"{gang.namespace}/{name}" if name else gang.id


def preempted(own: PreemptedRow) -> str:
    """Which gang it gave way to last, and when."""
    when = datetime.fromtimestamp(own.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if own.id is None:
        return f"was preempted at {when}: {own.message}"
    winner = f"{own.namespace}/{own.gang}" if own.gang else f"gang {own.id} of another namespace"
    return f"was preempted by {winner} (priority {own.priority}) at {when}"


def by_gang(victims: Iterable[VictimRow]) -> list[VictimRow]:
    """The same victims, with all pods of a gang that leave in one way in one row."""
    found: dict[tuple[str, str, str], VictimRow] = {}
    for own in victims:
        known = found.setdefault((own.id, own.kind, own.way), own)
        if known is not own:
            pods, lost = known.pods + own.pods, known.lost + own.lost
            found[own.id, own.kind, own.way] = msgspec.structs.replace(known, pods=pods, lost=lost)
    return list(found.values())


def as_json(value: Any) -> str:
    """Indented JSON; invisible characters, which can only stand inside strings, as JSON's own escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if text.replace("\n", "").isprintable():
        return text + "\n"
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text) + "\n"


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def as_yaml(value: Any) -> str:
    """YAML; where anything invisible is in it, all that is not ASCII as YAML's own escapes."""
    plain = msgspec.to_builtins(value, str_keys=True)
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if text.replace("\n", "").isprintable():
        return text
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False))


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 takes for a number, too: others read `1e5` as one, and PyYAML, of YAML 1.1, does not."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(0o[0-7]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+)\Z"),
    None,
)
