"""Output: tables, JSON, YAML and lines, without control sequences from untrusted text.

Lives here: the only path of text to the terminal. Untrusted text is shown as written, never as rich's markup, with
control and invisible characters escaped. Never here: what is shown.
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
"""Spaces between two columns."""

UNBOUNDED: Final = 100_000
"""Columns of an output that is not a terminal: nothing is truncated or wrapped there."""


def printable(text: str) -> str:
    """The text with all characters escaped that a terminal would interpret or hide."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def console(*, errors: bool = False) -> Console:
    """A new console for the current standard output or standard error."""
    stream = sys.stderr if errors else sys.stdout
    own = Console(file=stream, soft_wrap=errors, highlight=False, markup=False, emoji=False)
    if not own.is_terminal:
        own.width = UNBOUNDED
    return own


def line(text: str, style: str = "") -> None:
    """One line of an answer."""
    console().print(Text(printable(text), style=style), soft_wrap=True)


def note(text: str) -> None:
    """One line in addition to the answer, on standard error."""
    console(errors=True).print(Text(printable(text), style="dim"))


def table(head: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Rows under a header, in columns. Without rows only the header is shown."""
    show(grid(head, rows))


def grid(head: Sequence[str], rows: Iterable[Sequence[str | Text]], *, cut: bool = False) -> Table:
    """Rows under a header, in columns. cut: on a terminal the last column is truncated to the line, with an ellipsis."""
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
    """Show a table, without trailing spaces."""
    shown = console()
    with shown.capture() as captured:
        shown.print(grid)
    for text in captured.get().splitlines():
        shown.file.write(text.rstrip() + "\n")
    shown.file.flush()


def span(seconds: float | None) -> str:
    """A duration in its two largest units: 4m10s, 3h5m, 2d4h. A dash for None."""
    if seconds is None:
        return "-"
    left = max(0, round(seconds))
    for (large, size), (small, part) in pairwise(UNITS):
        if left >= size:
            rest = left % size // part
            return f"{left // size}{large}" + (f"{rest}{small}" if rest else "")
    return f"{left}s"


def document(value: Any, form: Form) -> bool:
    """Write the answer if the form is JSON or YAML. Returns whether it is."""
    if is_document := form in {Form.JSON, Form.YAML}:
        sys.stdout.write(as_json(value) if form is Form.JSON else as_yaml(value))
    return is_document


def gang_name(gang: Tenant | VictimRow | Behind) -> str:
    """A gang by its namespace and name, or by its id if they are hidden."""
    name = gang.name if isinstance(gang, Tenant) else gang.gang
    return f"{gang.namespace}/{name}" if name else gang.id


def preempted(own: PreemptedRow) -> str:
    """The gang that preempted it last, and when."""
    when = datetime.fromtimestamp(own.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if own.id is None:
        return f"was preempted at {when}: {own.message}"
    winner = f"{own.namespace}/{own.gang}" if own.gang else f"gang {own.id} of another namespace"
    return f"was preempted by {winner} (priority {own.priority}) at {when}"


def by_gang(victims: Iterable[VictimRow]) -> list[VictimRow]:
    """The same victims, with one row per gang and way of preemption."""
    found: dict[tuple[str, str, str], VictimRow] = {}
    for own in victims:
        known = found.setdefault((own.id, own.kind, own.way), own)
        if known is not own:
            pods, lost = known.pods + own.pods, known.lost + own.lost
            found[own.id, own.kind, own.way] = msgspec.structs.replace(known, pods=pods, lost=lost)
    return list(found.values())


def as_json(value: Any) -> str:
    """Indented JSON. Invisible characters, which can only be inside strings, are JSON escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if text.replace("\n", "").isprintable():
        return text + "\n"
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text) + "\n"


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def as_yaml(value: Any) -> str:
    """YAML. If it contains an invisible character, all non-ASCII characters are YAML escapes."""
    plain = msgspec.to_builtins(value, str_keys=True)
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if text.replace("\n", "").isprintable():
        return text
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False))


class _Dumper(yaml.SafeDumper):
    """Also quotes strings that YAML 1.2 reads as numbers, for example `1e5`. PyYAML reads YAML 1.1."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(0o[0-7]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+)\Z"),
    None,
)
