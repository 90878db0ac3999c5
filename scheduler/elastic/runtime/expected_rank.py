"""The rank and the size that this process has to expect in its first round, and what the script was told of them.

Lives here: what is expected, and where the script asked. Never here: who is told what (`script_setup`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any, Iterator, Mapping

from . import worker_context
from .round_assignment import Place

ARRIVAL: Mapping[str, Any] = {"round": 0, "step": 0, "committed": 0, "samples": 0.0, "why": "newcomer"}
"""What a process says at the barrier that has no state yet."""

LIBRARIES = ("tensorflow", "keras", "horovod")
"""Packages through which a script may ask."""

_one = threading.Lock()
_told: Place | None = None
_alone = False
_asked: dict[str, tuple[int, str]] = {}
"""Field → what the script was told of it and keeps, and where it asked first."""


def told() -> Place:
    """What the master expects of this process's first round. Waits until it is known, and stays as it was told."""
    global _told  # noqa: PLW0603 - one process, one first round
    with _one:
        if _told is None:
            _told = worker_context.shim().place()
        return _told


def answer(kind: str, frame: Any, *, noted: bool) -> int:
    """`kind` of the place that the script goes by, `rank` or `size`. noted: code of the script asks, in this frame.

    In a round that is its place there, in a rehearsal that of the round before, and before the first the expected one.
    """
    if _alone:
        return {"rank": 0, "size": 1}[kind]
    mine = worker_context.current()
    known = mine.assignment if mine is not None and mine.assignment.round else told()
    value = int(getattr(known, kind))
    if noted and kind not in _asked and (worker_context.setting_up() or _traced()):
        _asked[kind] = (value, line_of(frame))
    return value


def _traced() -> bool:
    """Whether a graph of TensorFlow's is being made, which keeps the answer."""
    tensorflow: Any = sys.modules.get("tensorflow")
    return tensorflow is not None and not tensorflow.executing_eagerly()


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
    """What the script was told before its first round; None where it did not ask."""
    return _told if _asked else None


def differs(rank: int, size: int) -> str:
    """File and line where the script asked for what is not true in this place; empty: all that it asked for is."""
    now = {"rank": rank, "size": size}
    return next((where for kind, (value, where) in _asked.items() if now[kind] != value), "")


def again() -> bool:
    """Whether this is not the first process of its pod."""
    return os.environ.get("GANGWRIGHT_INCARNATION", "1") != "1"


def line_of(frame: Any) -> str:
    """File and line of the code that asked, above the libraries that it asked through."""
    asks = frame
    while asks is not None and str(asks.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        asks = asks.f_back
    asks = asks or frame
    return f"{asks.f_code.co_filename}:{asks.f_lineno}"
