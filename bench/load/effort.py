"""Processor time of the plane's programs, which tells more than a clock where others use the same machine; and memory."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.plane import Plane

TICKS: Final = os.sysconf("SC_CLK_TCK")
"""A second, in the unit of /proc/PID/stat."""

CYCLE: Final = "scheduler_scheduling_algorithm_duration_seconds"
"""kube-scheduler's histogram of one pod's filters and scores, those of an extender included."""

BENCH: Final = "bench"
"""This process: the watch that looks, and the creator."""


@dataclass(frozen=True)
class Run:
    """What one run took: seconds on the clock, and by program milliseconds of processor time for each pod."""

    seconds: float
    cpu_ms_per_pod: Mapping[str, float]
    cycle_ms: float = 0.0
    """kube-scheduler's mean time to choose a node for a pod: pods pass this stage one by one."""
    causes: Mapping[str, float] = field(default_factory=dict)
    """See `causes`: percentages of the API server's processor time; empty if it was not asked."""


def spent(plane: Plane) -> dict[str, float]:
    """By program, the seconds of processor time it used since it began."""
    found = {name: _seconds(program.pid) for name, program in plane.programs.items() if program.alive}
    return {**found, BENCH: time.process_time()}


def cycles(plane: Plane) -> tuple[float, float]:
    """Seconds and number of the choices of a node so far, by the kube-scheduler that runs."""
    (name,) = [name for name in plane.programs if name.endswith("kube-scheduler")]
    found = plane.metrics(name)
    return found.value(f"{CYCLE}_sum"), found.value(f"{CYCLE}_count")


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
