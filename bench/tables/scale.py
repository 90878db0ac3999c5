"""How the cost of planning grows with the cluster (`bench.scale`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bench.scale import PODS, Cost, Point, exponent, measured
from bench.tables.table import Chart, Profile, Series, Table

BASE: Final = Point(nodes=5_000, waiting=300, shapes=300)

AXES: Final[Mapping[Profile, Mapping[str, Sequence[int]]]] = {
    Profile.QUICK: {
        "nodes": (1_000, 5_000, 15_000),
        "shapes": (10, 100, 1_000),
        "waiting": (100, 1_000, 10_000),
    },
    Profile.FULL: {
        "nodes": (1_000, 2_000, 5_000, 10_000, 15_000),
        "shapes": (10, 100, 1_000, 10_000),
        "waiting": (100, 300, 1_000, 3_000, 10_000),
    },
}
FEW: Final = 50
"""Shapes where the number of waiting gangs grows."""


def make(profile: Profile, workers: int) -> Table:
    """One point after the other, because two at a time would disturb each other."""
    del workers
    found = {
        axis: [(point, measured(point)) for point in (_point(axis, size) for size in sizes)]
        for axis, sizes in AXES[profile].items()
    }
    return layout(found)


def _point(axis: str, size: int) -> Point:
    if axis == "nodes":
        return replace(BASE, nodes=size)
    if axis == "shapes":
        return replace(BASE, shapes=size, waiting=size)
    return replace(BASE, shapes=FEW, waiting=size)


def layout(found: Mapping[str, Sequence[tuple[Point, Cost]]]) -> Table:
    """A row for each point."""
    figures = {}
    for axis, points in found.items():
        sizes = [getattr(point, axis) for point, _ in points]
        figures[f"ended_exponent_of_{axis}"] = exponent(sizes, [cost.ended for _, cost in points])
        figures[f"first_exponent_of_{axis}"] = exponent(sizes, [cost.first for _, cost in points])
        figures[f"ended_ms_at_{sizes[-1]}_{axis}"] = points[-1][1].ended
    return Table(
        title="Scale of the core",
        shows="Processor time and memory of the engine alone on a full cluster, as nodes, shapes or waiting gangs grow. No API "
        "server, no network. The pass after one pod has ended is the one that a busy cluster makes all the time.",
        columns=(
            "grows",
            "nodes",
            "running pods",
            "waiting gangs",
            "shapes",
            "load, s",
            "first pass, ms",
            "a pod ended, ms",
            "MiB",
        ),
        rows=[
            (
                axis,
                point.nodes,
                point.nodes * PODS,
                point.waiting,
                point.shapes,
                round(cost.load, 2),
                round(cost.first, 1),
                round(cost.ended, 2),
                round(cost.mib),
            )
            for axis, points in found.items()
            for point, cost in points
        ],
        figures=figures,
        notes=(
            "An exponent of 1 means that the cost grows like the size, and 0 that it does not grow: "
            + ", ".join(
                f"{figures[f'ended_exponent_of_{axis}']:.2f} for {axis} (first pass {figures[f'first_exponent_of_{axis}']:.2f})"
                for axis in found
            )
            + ".",
            "A shape is what the planner sees of a gang. Gangs of one shape share an answer.",
        ),
        charts=(
            Chart(
                "size",
                "a pod ended, ms",
                [
                    Series(
                        axis,
                        [getattr(point, axis) for point, _ in points],
                        [cost.ended for _, cost in points],
                    )
                    for axis, points in found.items()
                ],
            ),
        ),
    )
