"""`python -m bench`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bench.ending import run
from bench.tables import ranges
from bench.tables.known import MAKERS, NAMES
from bench.tables.measuring import DOCUMENT, Report
from bench.tables.ranges import RangesError
from bench.tables.table import Profile

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

CORES = os.cpu_count() or 1


@app.callback(invoke_without_command=True)
def report(
    context: typer.Context,
    *,
    profile: Annotated[Profile, typer.Option(help="How much is measured.")] = Profile.QUICK,
    only: Annotated[str, typer.Option(help="Names of tables, separated by commas.")] = ",".join(NAMES),
    out: Annotated[Path, typer.Option(help="Folder of the report.", file_okay=False)] = Path("bench-report"),
    workers: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = CORES,
    again: Annotated[bool, typer.Option("--again", help="Measure tables again that exist.")] = False,
) -> None:
    """Write a report of published figures beside Gangwright's.

    The report is OUT/PROFILE/report.md, with pictures and report.json beside it. A table that exists is not measured
    again, unless the last commit that changed bench or scheduler is another one. Ends with 1 if a table fails or a
    figure is out of range.
    """
    if context.invoked_subcommand is not None:
        return
    bounds = ranges.read(profile, NAMES)
    found = Report({name: MAKERS[name] for name in _chosen(only)}, profile, out / profile, bounds)
    found.run(workers, again=again)
    print(out / profile / DOCUMENT, flush=True)
    if not found.holds:
        raise typer.Exit(1)


@app.command("ranges")
def propose(
    reports: Annotated[list[Path], typer.Argument(help="Files report.json of some runs.", dir_okay=False)],
) -> None:
    """Print ranges for the figures of these reports."""
    for line in ranges.proposal(reports):
        print(line)


def _chosen(only: str) -> list[str]:
    words = [word.strip() for word in only.split(",")]
    unknown = [word for word in words if word not in NAMES]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r}: unknown table. Use some of {', '.join(NAMES)}.", param_hint="--only"
        )
    return [name for name in NAMES if name in words]


if __name__ == "__main__":
    run(app, RangesError)
