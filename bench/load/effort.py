"""Processor time of the plane's programs, which tells more than a clock where others use the same machine; and memory."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.plane import Plane

TICKS: Final = os.sysconf("SC_CLK_TCK")
"""A second, in the unit of /proc/PID/stat."""

BENCH: Final = "bench"
"""This process: the watch that looks, and the creator."""


@dataclass(frozen=True)
class Run:
    """What one run took: seconds on the clock, and by program milliseconds of processor time for each pod."""

    seconds: float
    cpu_ms_per_pod: Mapping[str, float]


def spent(plane: Plane) -> dict[str, float]:
    """By program, the seconds of processor time it used since it began."""
    found = {name: _seconds(program.pid) for name, program in plane.programs.items() if program.alive}
    return {**found, BENCH: time.process_time()}


def per_pod(before: Mapping[str, float], after: Mapping[str, float], pods: int) -> dict[str, float]:
    """By program, milliseconds of processor time for each pod."""
    return {
        name: round(1000 * (seconds - before.get(name, 0.0)) / pods, 2) for name, seconds in after.items()
    }


def forget_peak(pid: int) -> None:
    """VmHWM of the process begins again at what it has now, proc_pid_clear_refs(5)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def mib(pid: int, field: str) -> float:
    """VmRSS or VmHWM of the process, proc_pid_status(5)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{field}:")]
    return round(int(line.split()[1]) / 1024, 1)


def _seconds(pid: int) -> float:
    """User and system time, fields 14 and 15 of proc_pid_stat(5); the name before them may hold blanks."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
