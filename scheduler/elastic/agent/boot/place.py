"""The rank and the size that this process has to expect in its first round, and what the script was told of them.

Lives here: what is expected, and where the script asked. Never here: who is told what (`setting_up`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping

from . import worker
from .assignment import Place

ARRIVAL: Mapping[str, Any] = {"round": 0, "step": 0, "committed": 0, "samples": 0.0, "why": "newcomer"}
"""What a process says at the barrier that has no state yet."""

_told: Place | None = None
_alone = False
_asked: dict[str, tuple[int, str]] = {}
"""Field → what the script was told of it while it set up, and where it asked first."""


def told() -> Place:
    """What the master expects of this process's first round. Waits until it is known, and stays as it was told."""
    global _told  # noqa: PLW0603 - one process, one first round
    if _told is None:
        _told = worker.shim().place()
    return _told


def answer(kind: str, frame: Any, *, noted: bool) -> int:
    """`kind` of the place that the script goes by, `rank` or `size`. noted: code of the script asks, in this frame.

    In a round that is its place there, in a rehearsal that of the round before, and before the first the expected one.
    """
    mine = worker.current()
    if _alone:
        return {"rank": 0, "size": 1}[kind]
    if mine is not None and mine.assignment.round:
        return int(getattr(mine.assignment, kind))
    value = int(getattr(told(), kind))
    if noted and worker.setting_up():
        _asked.setdefault(kind, (value, line_of(frame)))
    return value


def others_heard() -> bool:
    """Whether the script heard that there are others."""
    return _told is not None and _told.size > 1


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Meanwhile the script hears that it is alone."""
    global _alone  # noqa: PLW0603 - one script in a process
    _alone = True
    try:
        yield
    finally:
        _alone = False


def asked() -> Place | None:
    """What the script was told while it set up; None where it did not ask."""
    return _told if _asked else None


def differs(rank: int, size: int) -> str:
    """File and line where the script asked for what is not true in this place; empty: all that it asked for is."""
    now = {"rank": rank, "size": size}
    return next((where for kind, (value, where) in _asked.items() if now[kind] != value), "")


def line_of(frame: Any) -> str:
    """File and line of this code."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
