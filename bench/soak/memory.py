"""What the kernel says of a program's memory, and how much it grew after the warm-up."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

WARM: Final = 0.2
"""Part of all gangs after which what is kept within a bound has filled."""

TENTHS: Final = tuple(part / 10 for part in range(1, 11))


def of(pid: int | None = None) -> dict[str, float]:
    """MiB in use now (`rss`) and at the most (`peak`): VmRSS and VmHWM of proc_pid_status(5); by default our own."""
    text = Path(f"/proc/{pid or os.getpid()}/status").read_text(encoding="utf-8")
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {
        name: round(int(rows[row].split()[0]) / 1024, 2)
        for name, row in (("rss", "VmRSS"), ("peak", "VmHWM"))
    }


def growth(parts: Sequence[float], sizes: Sequence[float]) -> float:
    """Per cent by which the last size is above the first one after the warm-up."""
    warm = next(size for part, size in zip(parts, sizes, strict=True) if part >= WARM)
    return round(100 * (sizes[-1] / warm - 1), 2)
