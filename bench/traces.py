"""Jobs of real clusters, read from the tables in `bench/data`.

Lives here: what a job of a trace is, and how each table tells of it. Never here: what becomes of a job (see
simulator). A table that does not read is refused whole, with file, line, column and value.
"""

import csv
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from scheduler.model.resources import Amounts

DATA: Final = Path(__file__).parent / "data"
GPUS: Final = 8
"""Of a node. Both traces come from clusters of such nodes."""

SPREAD: Final = 2.0
"""Noisy runtimes are between the true one divided by this, and the true one times this."""


class TraceError(ValueError):
    """A table of jobs that is not as its README says."""


@dataclass(frozen=True, slots=True)
class Job:
    """A rigid job: all of its members run, for the whole of its runtime, or none does. Times are seconds."""

    name: str
    arrival: float
    runtime: float
    """What it takes when it is never interrupted."""
    members: int
    gpus: int
    """Of each member."""
    declared: float | None = None
    """The runtime that its owner states, which need not be true; None: nothing is stated."""
    priority: int = 0
    namespace: str = "default"
    suspends: bool = False
    """It may be suspended, and goes on later from where it was; otherwise who takes its room ends it."""
    others: Amounts = ()
    """What each member requests besides GPUs."""

    @property
    def size(self) -> int:
        """GPUs of all members."""
        return self.members * self.gpus


def read_philly(path: Path, *, gpus: int = GPUS) -> list[Job]:
    """The jobs of one virtual cluster, in order of arrival; a job above one node takes whole nodes.

    Raises TraceError.
    """
    jobs = [_philly(row, gpus) for row in Rows(path, ("job_id", "submit_time_s", "duration_s", "num_gpus"))]
    return sorted(jobs, key=lambda job: job.arrival)


def _philly(row: "Row", gpus: int) -> Job:
    total = int(row.number("num_gpus", least=1, whole=True))
    members = math.ceil(total / gpus)
    if total % members:
        raise row.wrong("num_gpus", f"at most {gpus}, or a multiple of {gpus}")
    return Job(
        name=f"job-{row.text('job_id')}",
        arrival=row.number("submit_time_s"),
        runtime=row.number("duration_s"),
        members=members,
        gpus=total // members,
    )


def read_burst(path: Path, *, gpus: int = GPUS) -> list[Job]:
    """Jobs that all arrive at once, in the order of submission; every member takes a whole node.

    Raises TraceError.
    """
    columns = ("submit_order", "group", "replicas", "duration_s")
    return [
        Job(
            name=f"{int(row.number('submit_order', whole=True)):03d}-{row.text('group').replace('.', '-')}",
            arrival=0.0,
            runtime=row.number("duration_s"),
            members=int(row.number("replicas", least=1, whole=True)),
            gpus=gpus,
        )
        for row in Rows(path, columns)
    ]


def declaring(jobs: Sequence[Job]) -> list[Job]:
    """The same jobs, each stating its true runtime."""
    return [replace(job, declared=job.runtime) for job in jobs]


def guessing(jobs: Sequence[Job], seed: int, *, spread: float = SPREAD) -> list[Job]:
    """The same jobs, each stating its runtime times a factor that is log-uniform in [1/spread, spread]."""
    chance = random.Random(seed)
    return [replace(job, declared=job.runtime * spread ** chance.uniform(-1.0, 1.0)) for job in jobs]


def read(path: Path) -> list[Job]:
    """The jobs of a table of either kind, which its first line tells.  Raises TraceError."""
    first = _lines(path)[:1]
    for column, reader in READERS.items():
        if first and column in first[0].split(","):
            return reader(path)
    raise TraceError(f"{path}: line 1: {first[0] if first else ''!r}: must name one of {', '.join(READERS)}")


READERS: Final[Mapping[str, Callable[[Path], list[Job]]]] = {
    "num_gpus": read_philly,
    "replicas": read_burst,
}
"""By a column that only such tables have."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table. Its methods raise TraceError for a cell that is not what is asked for."""

    path: Path
    line: int
    cells: Mapping[str, str | None]

    def text(self, column: str) -> str:
        value = self.cells[column]
        if not value:
            raise self.wrong(column, "a text")
        return value

    def number(self, column: str, *, least: float = 0.0, whole: bool = False) -> float:
        text = self.text(column)
        try:
            value = float(text)
        except ValueError as error:
            raise self.wrong(column, "a number") from error
        if not least <= value < math.inf or (whole and value % 1):
            raise self.wrong(column, f"a {'whole ' if whole else ''}number of at least {least:g}")
        return value

    def wrong(self, column: str, right: str) -> TraceError:
        return TraceError(f"{self.path}: line {self.line}: {column}: {self.cells[column]!r}: must be {right}")


class Rows:
    """The rows of a table, by column."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._rows = csv.DictReader(_lines(path))
        missing = [column for column in columns if column not in (self._rows.fieldnames or ())]
        if missing:
            raise TraceError(f"{path}: line 1: lacks the columns {', '.join(missing)}")

    def __iter__(self) -> Iterator[Row]:
        for cells in self._rows:
            yield Row(self._path, self._rows.line_num, cells)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from error
