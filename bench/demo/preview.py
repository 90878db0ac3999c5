"""`python -m bench.demo.preview`: the engine alone, on a cluster that exists on paper, while the control plane is built.

Lives here: a few gangs, and one picture of them. Never here: a claim. The acts show the same on a real API server. It
needs numpy, rich and typer only, which are installed within seconds, so the picture is there before the rest is.
"""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.controller import Run
from bench.demo.palette import Palette
from bench.simulator import Simulation, some_nodes
from bench.traces import Job
from scheduler.engine.explanation import foresee
from scheduler.model.policy import Policy
from scheduler.model.workload import Strategy

NODES: Final = some_nodes(16, gpus=8, racks=4)

MIX: Final = (
    ("llama", 4, 8, 5400.0),
    ("vision", 8, 2, 1500.0),
    ("speech", 3, 8, 2700.0),
    ("ranker", 6, 4, 3600.0),
    ("bert", 12, 1, 900.0),
    ("gemma", 8, 8, 1800.0),
    ("audio", 2, 4, 600.0),
    ("whale", 4, 8, 1200.0),
)
"""Gangs in order of submission, one a second: name, members, GPUs of each, and the seconds that each declares and runs."""

POLICY: Final = Policy(strategy=Strategy.PACK, level="rack")


def show(console: Console) -> None:
    """Submit the gangs, and draw which of them run, and when the others are expected to start."""
    jobs = [
        Job(name, float(at), time, members, gpus, time) for at, (name, members, gpus, time) in enumerate(MIX)
    ]
    simulation, runs = Simulation(jobs, NODES, POLICY), list[Run]()
    while len(runs) < len(jobs):
        simulation.step()
        runs += simulation.newcomers
    starts = foresee(simulation.engine.outlook(simulation.now))
    expected = {key.name: start.middle - simulation.now for key, start in starts.items()}
    palette = Palette(job.name for job in jobs)
    console.rule("[bold]Gangwright's engine, on a cluster on paper", align="left")
    console.print(
        "Eight gangs come to 16 nodes of 8 GPUs in 4 racks. Each starts whole or not at all, packed into racks.\n"
        "The real control plane is prepared meanwhile.\n"
    )
    row = Table.grid(padding=(0, 4))
    row.add_row(_cells(runs, palette), _gangs(runs, expected, palette))
    console.print(row)


def _cells(runs: Iterable[Run], palette: Palette) -> Table:
    """A column for each rack, a line of GPU cells for each node."""
    used: dict[str, list[str]] = {node.name: [] for node in NODES}
    for run in runs:
        for pod in run.pods.values():
            if pod.node is not None:
                used[pod.node] += [run.job.name] * run.job.gpus
    racks: dict[str, list[Text]] = {}
    for node in NODES:
        rack = node.labels["gangwright.io/rack"]
        names = [*used[node.name], *[None] * (8 - len(used[node.name]))]
        cells = Text(" ").join(palette.cell(name) for name in names)
        racks.setdefault(rack, [Text(rack, style="bold")]).append(cells)
    table = Table.grid(padding=(0, 2))
    for first, second in zip(list(racks)[::2], list(racks)[1::2], strict=True):
        for left, right in zip(racks[first], racks[second], strict=True):
            table.add_row(left, right)
        table.add_row()
    return table


def _gangs(runs: Iterable[Run], expected: dict[str, float], palette: Palette) -> Table:
    table = Table("gang", "needs", "", box=None)
    for run in runs:
        job = run.job
        soon = f"starts in about {expected[job.name] / 60:.0f} min" if job.name in expected else "waits"
        stand = soon if run.since is None else "runs"
        table.add_row(palette.name(job.name), f"{job.members} × {job.gpus}", stand)
    return table


if __name__ == "__main__":
    show(Console(highlight=False))
