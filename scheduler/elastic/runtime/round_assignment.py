"""The master's assignment of this worker for one round: the agent reads it and passes it on to the training. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, TypeVar

from .data_position import MODES, Batch
from .runtime_errors import AnswerError


@dataclass(frozen=True)
class Assignment:
    """`rank` of `size` in `round`; `members` are pod names by rank; `ramp_steps` until a higher `lr_scale` is reached.

    With `restore` set, rank 0 restores the state, and `sync` is true: all other ranks receive it from there.
    """

    round: int
    rank: int
    size: int
    members: tuple[str, ...] = ()
    sync: bool = True
    removed: bool = False
    checkpoint: bool = False
    restore: str | None = None
    batch: Batch | None = None
    lr_scale: float = 1.0
    ramp_steps: int = 0
    env: Mapping[str, str] = field(default_factory=dict)


ALONE = Assignment(round=0, rank=0, size=1)
"""Assignment before the first round, in which a worker trains alone."""


@dataclass(frozen=True)
class Place:
    """The rank and size in the future first round. `joins`: other workers already train by then."""

    rank: int
    size: int
    joins: bool


T = TypeVar("T", Assignment, Place)


def decode_place(text: bytes) -> Place:
    """The place in a JSON object. Raises AnswerError as `decode` does."""
    raw = _object(text, "place")
    made = Place(_of(raw, "rank", int), _of(raw, "size", int), _of(raw, "joins", bool))
    return _within(made)


def decode(text: bytes) -> Assignment:
    """The assignment in a JSON object. Raises AnswerError with the field, its value and the valid values."""
    raw = _object(text, "assignment")
    removed = _of(raw, "removed", bool, False)
    restore = _of(raw, "restore", str) if raw.get("restore") else None
    made = Assignment(
        round=_of(raw, "round", int),
        rank=_of(raw, "rank", int, -1 if removed else None),
        size=_of(raw, "size", int, 0 if removed else None),
        members=tuple(_of(raw, "members", list, [])),
        sync=_of(raw, "sync", bool, True) or bool(restore),
        removed=removed,
        checkpoint=_of(raw, "checkpoint", bool, False),
        restore=restore,
        batch=_batch(raw.get("batch")),
        lr_scale=float(_of(raw, "lr_scale", (int, float), 1.0)),
        ramp_steps=_of(raw, "ramp_steps", int, 0),
        env={key: str(value) for key, value in _of(raw, "env", dict, {}).items()},
    )
    if made.round < 1:
        raise AnswerError(f"round of the assignment is {made.round}: must be 1 or more")
    return made if removed else _within(made)


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise AnswerError(f"the {what} is not valid JSON: {error}") from error
    if not isinstance(raw, dict):
        raise AnswerError(f"the {what} is {type(raw).__name__}, not an object")
    return raw


def _within(made: T) -> T:
    if not 0 <= made.rank < made.size:
        raise AnswerError(f"rank {made.rank} of size {made.size}: the rank must be from 0 to size - 1")
    return made


def _batch(raw: Any) -> Batch | None:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise AnswerError(f"batch is {raw!r}: must be an object or null")
    mode = _of(raw, "mode", str)
    if mode not in MODES:
        raise AnswerError(f"batch.mode is {mode!r}: must be one of {', '.join(MODES)}")
    numbers = [_of(raw, name, int) for name in ("global", "local", "accumulate")]
    if min(numbers[0], numbers[2]) < 1 or numbers[1] < 0:
        raise AnswerError(f"batch is {raw!r}: global and accumulate must be at least 1, local at least 0")
    return Batch(mode, total=numbers[0], local=numbers[1], accumulate=numbers[2])


def _of(raw: Mapping[str, Any], name: str, kind: Any, default: Any = None) -> Any:
    value = raw.get(name, default)
    wrong = isinstance(value, bool) and kind is not bool
    if wrong or not isinstance(value, kind):
        names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise AnswerError(f"{name} of the assignment is {value!r}: must be {names}")
    return value
