"""`gangwright nodes`: free capacity, by shape and by rack."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from rich.text import Text

from scheduler.cli import screen
from scheduler.cli.gangs import source
from scheduler.cli.options import Context, Form, Kubeconfig, Offline, Reach, Server, Settings, Shown
from scheduler.model.resources import CPU, MEMORY, NATIVE, is_bytes
from scheduler.status.node_schemas import NodeRow

GIB: Final = 2**30
FILL: Final = "·▁▂▃▄▅▆▇█"
"""From unused to fully used."""
CORDONED: Final = "x"
SHAPES: Final = 12
"""Number of free shapes that are listed. The others are counted."""


class Shape(msgspec.Struct, frozen=True):
    """Number of schedulable nodes with exactly this free capacity, in the units of the status API."""

    nodes: int
    free: dict[str, float]


def nodes(
    output: Shown = Form.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
    server: Server = "",
    offline: Offline = False,
) -> None:
    """Show nodes by rack, free capacity and fragmentation.

    `-o wide` lists every node.
    """
    answers = source(Reach(kubeconfig, context, settings, server, offline))
    listed, broken = answers.nodes(), answers.fragmentation()
    rows, rack = listed.nodes, _rack_level(listed.levels)
    names = resources(rows)
    if screen.document({"nodes": rows, "shapes": shapes(rows, names), "fragmentation": broken}, output):
        return
    if rows:
        _tell(rows, rack, names, broken, wide=output is Form.WIDE)
    else:
        screen.note("no nodes in this cluster")
    for text in answers.notes():
        screen.note(text)


def _tell(
    rows: Sequence[NodeRow], rack: str, names: Sequence[str], broken: Mapping[str, float], *, wide: bool
) -> None:
    _map(sorted(rows, key=lambda row: (row.levels.get(rack, ""), row.name)), rack, names[0])
    print()
    _shapes(shapes(rows, names), names)
    for device, share in sorted(broken.items()):
        screen.line(f"{device}: {share:.0%} of the free capacity is fragmented (unusable for existing gangs)")
    if wide:
        print()
        _every(rows, rack, names)


def resources(rows: Sequence[NodeRow]) -> list[str]:
    """Resources to show: devices, most common first, then CPU and memory."""
    have = Counter(name for row in rows for name, amount in row.capacity.items() if amount > 0)
    devices = sorted((name for name in have if name not in NATIVE), key=lambda name: (-have[name], name))
    return [*devices, CPU, MEMORY]


def shapes(rows: Sequence[NodeRow], names: Sequence[str]) -> list[Shape]:
    """Free capacity of schedulable nodes, largest first."""
    free = Counter(tuple(row.free.get(name, 0.0) for name in names) for row in rows if row.schedulable)
    found = sorted(free.items(), key=lambda item: ([-amount for amount in item[0]], -item[1]))
    return [Shape(count, dict(zip(names, left, strict=True))) for left, count in found]


def _rack_level(levels: Sequence[str]) -> str:
    """The level above the host."""
    return levels[-2] if len(levels) > 1 else "".join(levels)


def _map(rows: Sequence[NodeRow], rack: str, device: str) -> None:
    """One line per rack, one character per node."""
    screen.line(f"{device} in use: {FILL[0]} none … {FILL[-1]} all, {CORDONED} unschedulable", "dim")
    racks = [(name, list(own)) for name, own in groupby(rows, key=lambda row: row.levels.get(rack, ""))]
    head = (rack.upper(), "NODES", "FREE", "MAP")
    screen.table(head, (_line(name, own, device) for name, own in racks))


def _line(name: str, own: Sequence[NodeRow], device: str) -> list[str | Text]:
    free = sum(max(0.0, row.free.get(device, 0.0)) for row in own if row.schedulable)
    signs = Text()
    for row in own:
        signs.append(_sign(row, device), style="" if row.schedulable else "red")
    return [_path(name), str(len(own)), amount(device, free), signs]


def _sign(row: NodeRow, device: str) -> str:
    """The fill level of a node. The extremes stand only for fully free and fully used."""
    have = row.capacity.get(device, 0.0)
    if not row.schedulable:
        return CORDONED
    if have <= 0:
        return " "
    used = min(max(1 - row.free.get(device, 0.0) / have, 0.0), 1.0)
    most = len(FILL) - 1
    return FILL[min(max(round(used * most), used > 0), most if used == 1 else most - 1)]


def _shapes(found: Sequence[Shape], names: Sequence[str]) -> None:
    screen.table(
        ("NODES", *(f"FREE {_title(name)}" for name in names)),
        ([str(own.nodes), *(amount(name, own.free[name]) for name in names)] for own in found[:SHAPES]),
    )
    if len(found) > SHAPES:
        screen.line(f"… and {len(found) - SHAPES} more shapes", "dim")


def _every(rows: Sequence[NodeRow], rack: str, names: Sequence[str]) -> None:
    head = ("NODE", rack.upper(), "SCHEDULABLE", *(f"{_title(name)} FREE/ALL" for name in names), "GANGS")
    screen.table(head, (_node(row, rack, names) for row in rows))


def _node(row: NodeRow, rack: str, names: Sequence[str]) -> list[str]:
    room = [f"{amount(n, row.free.get(n, 0.0))}/{amount(n, row.capacity.get(n, 0.0))}" for n in names]
    gangs = ", ".join(map(screen.gang_name, row.gangs))
    return [
        row.name,
        _path(row.levels.get(rack, "")),
        "yes" if row.schedulable else "no",
        *room,
        gangs or "-",
    ]


def _path(domain: str) -> str:
    """The path of a domain, without unlabeled levels above it."""
    return domain.lstrip("/") or "(none)"


def _title(name: str) -> str:
    return name.upper() if name in {CPU, MEMORY} else name


def amount(name: str, value: float) -> str:
    """An amount in common units: cores, GiB, pieces."""
    if name == CPU:
        return f"{value / 1000:g}"
    return f"{value / GIB:.4g}Gi" if is_bytes(name) else f"{value:g}"
