"""The rank and the size that a script hears before its first round: those that it will have there.

Until then Horovod's C++ is alone, at rank 0 of 1, and that stays the answer for Horovod's own modules, which branch on
it around their collectives. A script divides its data by rank and size, and chooses its writer by them, so it hears
what the master expects. One worker runs in a pod, so the local rank is 0 of 1, and the cross rank is the rank.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping

from . import worker
from .assignment import Place

KINDS: Mapping[str, str] = {"rank": "rank", "size": "size", "cross_rank": "rank", "cross_size": "size"}
"""Method of Horovod's that a script may ask → the field of a place that answers it."""

DEALS = "horovod.torch.elastic.sampler"
"""Horovod's one module that divides data. It is dealt again in each round, so it is no script that asked."""

ARRIVAL: Mapping[str, Any] = {"round": 0, "step": 0, "committed": 0, "samples": 0.0, "why": "newcomer"}
"""What a process says at the barrier that has no state yet."""

_told: Place | None = None
_asked: dict[str, tuple[int, str]] = {}
"""Field → what the script was told of it while it set up, and where it asked first."""


def told() -> Place:
    """What the master expects of this process's first round. Waits until it is known, and stays as it was told."""
    global _told  # noqa: PLW0603 - one process, one first round
    if _told is None:
        _told = worker.shim().place()
    return _told


def asked() -> Place | None:
    """What the script was told while it set up; None where it did not ask."""
    return _told if _asked else None


def differs(rank: int, size: int) -> str:
    """File and line where the script asked for what is not true in this place; empty: all that it asked for is."""
    now = {"rank": rank, "size": size}
    return next((where for kind, (value, where) in _asked.items() if now[kind] != value), "")


def patch(module: Any) -> None:
    """Has `HorovodBasics` answer scripts and Horovod's own modules apart. Bound methods are taken after that."""
    for name, kind in KINDS.items():
        setattr(module.HorovodBasics, name, _answering(getattr(module.HorovodBasics, name), kind))


def patch_process_sets(module: Any) -> None:
    """The same for the set of all processes, which scripts may ask as well."""
    for name in ("rank", "size"):
        setattr(module.ProcessSet, name, _answering(getattr(module.ProcessSet, name), name))


def of_script(frame: Any) -> bool:
    """Whether this code is neither Horovod's nor ours."""
    name = str(frame.f_globals.get("__name__"))
    ours = __name__.rpartition(".")[0]
    return not any(name == root or name.startswith(root + ".") for root in ("horovod", ours))


def line_of(frame: Any) -> str:
    """File and line of this code."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _answering(native: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
    def ask(self: Any) -> Any:
        truth = native(self)  # raises where Horovod is not initialized
        frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to the caller, and this one is quick
        deals = frame.f_globals.get("__name__") == DEALS
        if getattr(self, "process_set_id", 0) or not (deals or of_script(frame)):
            return truth
        return _answer(kind, frame, noted=not deals)

    return ask


def _answer(kind: str, frame: Any, *, noted: bool) -> int:
    """In a round its place, in a rehearsal that of the round before, and before the first what is expected."""
    mine = worker.current()
    if mine is not None and mine.assignment.round:
        return int(getattr(mine.assignment, kind))
    value = int(getattr(told(), kind))
    if noted and worker.setting_up():
        _asked.setdefault(kind, (value, line_of(frame)))
    return value
