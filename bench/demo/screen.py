"""Pictures in a terminal: GPUs as cells, nodes as rows, racks as columns, one color a gang.

Every cell also carries the gang's letter or number, so that nothing is lost without colors. Pure: pods seen in,
renderables out.
"""

from collections.abc import Callable, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bench.demo.palette import Palette
from bench.demo.record import Seen
from bench.plane.client import Object
from bench.plane.nodes import GPU, RACK_LABEL


def racks(nodes: Iterable[Object]) -> dict[str, list[Object]]:
    """Rack → its nodes, both in order of name."""
    found: dict[str, list[Object]] = {}
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        found.setdefault(node["metadata"]["labels"][RACK_LABEL], []).append(node)
    return dict(sorted(found.items()))


def by_gpu(nodes: Sequence[Object], present: Sequence[Seen], palette: Palette) -> RenderableType:
    """Racks side by side; in each a line of GPU cells for every node."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_row(*(_rack(rack, own, present, palette) for rack, own in racks(nodes).items()))
    return table


def _rack(rack: str, nodes: Sequence[Object], present: Sequence[Seen], palette: Palette) -> RenderableType:
    lines = [Text(rack, style="bold")]
    for node in nodes:
        name = node["metadata"]["name"]
        used = [seen for seen in present if seen.node == name for _ in range(seen.gpus)]
        room = int(node["status"]["allocatable"][GPU])
        cells = [palette.cell(seen.gang, surplus=seen.surplus) for seen in used]
        lines.append(Text(" ").join((*cells, *[palette.cell(None)] * (room - len(used)))))
    return Group(*lines)


def by_node(nodes: Sequence[Object], present: Sequence[Seen], palette: Palette) -> RenderableType:
    """A line for every rack, a cell for every node: for gangs whose members take whole nodes."""
    on = {seen.node: seen.gang for seen in present}
    table = Table.grid(padding=(0, 1))
    for rack, own in racks(nodes).items():
        cells = [palette.cell(on.get(node["metadata"]["name"]), 4) for node in own]
        table.add_row(Text(rack, style="bold"), *cells)
    return table


def by_time(nodes: Iterable[Object], seen: Iterable[Seen], palette: Palette, width: int) -> RenderableType:
    """A line for every node, time from left to right: which gang had it when. All pods must have ended."""
    pods = list(seen)
    began = min(one.created for one in pods)
    span = max(one.ended or began for one in pods) - began
    lines = []
    for rack, own in racks(nodes).items():
        for number, node in enumerate(own):
            name = node["metadata"]["name"]
            here = sorted((one for one in pods if one.node == name), key=lambda one: one.bound or 0.0)
            head = Text(f"{rack if number == 0 else '':4}", style="bold")
            lines.append(head + _track(here, palette, lambda at: round((at - began) / span * width), width))
    return Group(*lines)


def _track(here: Sequence[Seen], palette: Palette, column: Callable[[float], int], width: int) -> Text:
    track = Text()
    for one in here:
        first, last = column(one.bound or 0.0), column(one.ended or 0.0)
        track.append(" " * (first - len(track)))
        track.append_text(palette.stretch(one.gang, max(0, last - len(track))))
    track.append(" " * (width - len(track)))
    return track


def bar(share: float, width: int = 30) -> Text:
    """A filled bar, 0 … 1."""
    full = round(min(1.0, max(0.0, share)) * width)
    return Text.assemble(("█" * full, "cyan"), ("░" * (width - full), "dim"))


def interval(low: float, middle: float | None = None, high: float | None = None, width: int = 48) -> Text:
    """A span and a point in it, all from 0 … 1 of the width; a point alone when nothing else is given."""
    cells = [" "] * (width + 1)
    at = [None if part is None else round(min(1.0, max(0.0, part)) * width) for part in (low, middle, high)]
    first, point, last = at
    if first is None or point is None or last is None:
        cells[first or 0] = "▲"
        return Text("".join(cells), style="bold green")
    cells[first : last + 1] = "─" * (last + 1 - first)
    cells[first], cells[last], cells[point] = "├", "┤", "●"
    return Text("".join(cells), style="cyan")


def panel(content: RenderableType, title: str) -> RenderableType:
    return Panel(content, title=title, title_align="left", border_style="dim", expand=False)


def indented(content: RenderableType) -> RenderableType:
    return Padding(content, (0, 0, 0, 2))
