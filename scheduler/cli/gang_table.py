"""The table of gangs: its columns, and the order of its rows.

Lives here: the cells for a `schemas.GangRow`. Never here: where rows come from, or how a table is drawn.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from scheduler.cli import screen
from scheduler.cli.screen import span
from scheduler.status.schemas import Forecast, GangRow

COLORS: Final = {
    "running": "green",
    "bound": "green",
    "held": "cyan",
    "waiting": "yellow",
    "gathering": "yellow",
    "refused": "red",
    "leaving": "dim",
    "suspended": "dim",
    "over": "dim",
}
"""Colors by state. The state is also a word, so no information is in the color alone."""

GPU: Final = re.compile(r".*/gpu(\..*)?|gpu\.intel\.com/(i915|xe)")
"""Names of resources that count GPUs: nvidia.com/gpu, nvidia.com/gpu.shared, amd.com/gpu, gpu.intel.com/i915. Memory of
GPUs has other names."""


class Order(StrEnum):
    """Sort key of the rows. Rows with an equal key, or without one, keep the order of the queue."""

    PLACE = "place"
    """Place in the queue. Gangs without a place follow by name."""
    NAME = "name"
    GPUS = "gpus"
    """Requested GPUs, largest first."""
    AGE = "age"
    """Age, oldest first."""
    WAITED = "waited"
    """Wait, longest first."""
    PRIORITY = "priority"
    """Priority, highest first."""


def ordered(rows: Iterable[GangRow], by: Order) -> list[GangRow]:
    """The rows in this order."""
    return sorted(sorted(rows, key=_place), key=_KEYS[by])


def _place(row: GangRow) -> tuple[bool, int, tuple[str, str]]:
    return row.position is None, row.position or 0, _name(row)


def _name(row: GangRow) -> tuple[str, str]:
    return row.namespace or "", row.name or row.id


def _least(value: float | None) -> float:
    return float("inf") if value is None else value


def _most(value: float | None) -> float:
    return float("inf") if value is None else -value


_KEYS: Final[dict[Order, Callable[[GangRow], Any]]] = {
    Order.PLACE: _place,
    Order.NAME: _name,
    Order.GPUS: lambda row: -gpus(row)[1],
    Order.AGE: lambda row: _least(row.created),
    Order.WAITED: lambda row: _most(row.wait_seconds),
    Order.PRIORITY: lambda row: _most(row.priority),
}


def lasting(rows: Iterable[GangRow]) -> list[GangRow]:
    """The rows without the fields that change with time alone."""
    return [msgspec.structs.replace(row, wait_seconds=None, forecast=None) for row in rows]


def grid(rows: Sequence[GangRow], now: float, *, wide: bool, everywhere: bool) -> Table:
    """The rows as a table. everywhere: with their namespaces."""
    head = [
        "PLACE",
        *(["NAMESPACE"] if everywhere else []),
        "GANG",
        "STATE",
        "GPUS",
        "MEMBERS",
        "WAITED",
        "AGE",
    ]
    head += ["STARTS", "REASON", *(["OWNER", "PRIORITY", "MESSAGE"] if wide else [])]
    return screen.grid(head, (_cells(row, now, wide=wide, everywhere=everywhere) for row in rows), cut=True)


def _cells(row: GangRow, now: float, *, wide: bool, everywhere: bool) -> list[str | Text]:
    held, wanted = gpus(row)
    cells: list[str | Text] = [str(row.position or "-")]
    cells += [row.namespace or "(hidden)"] if everywhere else []
    state = Text(screen.printable(row.state), style=COLORS.get(row.state, ""))
    cells += [row.name or row.id, state, f"{held}/{wanted}" if wanted else "-", _count(row)]
    cells += [span(row.wait_seconds), span(None if row.created is None else now - row.created)]
    cells += [starts(row.forecast, now), row.reason or "-"]
    priority = "-" if row.priority is None else str(row.priority)
    return [*cells, row.owner or "-", priority, row.message or "-"] if wide else cells


def gpus(row: GangRow) -> tuple[int, int]:
    """GPUs that the gang holds and requests. For a gang without GPUs, all its devices."""
    wanted = row.devices_wanted
    names = [name for name in wanted if GPU.fullmatch(name)] or list(wanted)
    return sum(row.devices_held.get(name, 0) for name in names), sum(wanted[name] for name in names)


def _count(row: GangRow) -> str:
    """Bound members of the quorum, and members beyond the quorum."""
    needed = row.members.needed
    if needed is None:
        return f"{row.members.present}/?"
    beyond = row.members.present - needed
    return f"{row.members.bound}/{needed}" + (f"+{beyond}" if beyond > 0 else "")


def starts(forecast: Forecast | None, now: float) -> str:
    """Time until the start, with the bounds that hold in four of five cases."""
    if forecast is None:
        return "-"
    middle, low, high = (max(0.0, time - now) for time in (forecast.middle, forecast.low, forecast.high))
    if high <= 0:
        return "now"
    return f"in {span(middle)} ({span(low)} … {span(high)})"
