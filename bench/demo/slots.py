"""Slots over time: a row for every node, a column for every second, cells by job.

A cell is a job's mark where a worker trains, a line where one has the slot and warms up, and a dot where no worker is.
What counts as training begins with a worker's first step and ends with its pod. Pure: pods and first steps in,
renderables out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from bench.demo.palette import Palette
from bench.demo.record import Seen

WARMS_UP = "╌"
TRAIN = "train"
"""Head of the row that counts."""
MARKED = 10
"""Columns between two marks of the scale."""


@dataclass(frozen=True)
class Span:
    """Times of the picture, in seconds of the record's clock. A column is `step` whole seconds, so that all fit in
    `width`.
    """

    began: float
    now: float
    width: int

    @property
    def step(self) -> int:
        return max(1, math.ceil((self.now - self.began) / self.width))

    @property
    def columns(self) -> int:
        return max(1, math.ceil((self.now - self.began) / self.step))

    def at(self, column: int) -> float:
        """The middle of a column, but never what is still to come."""
        return min(self.now, self.began + (column + 0.5) * self.step)


def by_second(
    nodes: Sequence[str], pods: Iterable[Seen], trains: Mapping[str, float], palette: Palette, span: Span
) -> RenderableType:
    """Nodes from top to bottom, time from left to right; below, how many slots train, and the seconds.

    trains: name of a pod → when it made its first step.
    """
    bound = [pod for pod in pods if pod.bound is not None]
    wide = max(map(len, (*nodes, TRAIN)))
    rows = []
    for node in nodes:
        here = [pod for pod in bound if pod.node == node]
        cells = [_cell(here, trains, palette, span.at(column)) for column in range(span.columns)]
        rows.append(Text.assemble((node.ljust(wide), "bold"), "  ", *cells))
    counts = [busy(bound, trains, span.at(column)) for column in range(span.columns)]
    train = "".join(str(count) if count else " " for count in counts)
    rows.append(Text.assemble((TRAIN.ljust(wide), "dim"), f"  {train}"))
    rows.append(Text.assemble(("s".ljust(wide), "dim"), f"  {_scale(span)}", style="dim"))
    return Group(*rows)


def busy(pods: Iterable[Seen], trains: Mapping[str, float], at: float) -> int:
    """Slots in which a worker trains at that time."""
    return sum(_has(pod, at) and _trains(pod, trains, at) for pod in pods)


def _cell(here: Iterable[Seen], trains: Mapping[str, float], palette: Palette, at: float) -> Text:
    pod = next((pod for pod in here if _has(pod, at)), None)
    if pod is None:
        return palette.cell(None)
    if _trains(pod, trains, at):
        return palette.cell(pod.gang, surplus=pod.surplus)
    return palette.faint(pod.gang, WARMS_UP)


def _has(pod: Seen, at: float) -> bool:
    return pod.bound is not None and pod.bound <= at and (pod.ended is None or at < pod.ended)


def _trains(pod: Seen, trains: Mapping[str, float], at: float) -> bool:
    return trains.get(pod.name, math.inf) <= at


def _scale(span: Span) -> str:
    marks = (str(column * span.step).ljust(MARKED) for column in range(0, span.columns, MARKED))
    return "".join(marks)[: span.columns + MARKED].rstrip()
