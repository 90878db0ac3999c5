"""The strict reading of one object that a person wrote: every field once, every problem kept.

Lives here: kinds of values, and `Form`, which reads an object's fields and remembers what is wrong.
Never here: which fields there are (`validation`).
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from scheduler.elastic.job.spec import Problem
from scheduler.errors import shortened
from scheduler.model import durations

T = TypeVar("T")
D = TypeVar("D")
Kind = Callable[[Any], T]
"""Reads one value. Raises Unfit."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?")
_LONGEST: Final = 4096


class Unfit(ValueError):  # noqa: N818 - never leaves this room
    """The value is not what the field takes; the text says what would be right."""


class Form:
    """One object, being read."""

    def __init__(self, place: str, raw: Any, problems: list[Problem] | None = None) -> None:
        self.place = place
        self.problems: list[Problem] = [] if problems is None else problems
        self._known: list[str] = []
        self.raw: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
        if raw is not None and not isinstance(raw, dict):
            self.problems.append(Problem(place, shortened(repr(raw), 64), "an object"))

    def take(self, field: str, kind: Kind[T], default: D, *, needed: bool = False) -> T | D:
        """The field's value; the default where there is none, or a wrong one."""
        self._known.append(field)
        value = self.raw.get(field)
        if value is None:
            if needed:
                self.wrong(field, None, f"is needed: {_said(kind)}")
            return default
        try:
            return kind(value)
        except Unfit as unfit:
            self.wrong(field, value, str(unfit))
            return default

    def form(self, field: str) -> "Form":
        """The object in this field, empty when there is none."""
        self._known.append(field)
        return Form(f"{self.place}.{field}", self.raw.get(field), self.problems)

    def forms(self, field: str, kind: Kind[list[Any]]) -> list["Form"]:
        """The objects of the list in this field."""
        found = self.take(field, kind, [])
        return [
            Form(f"{self.place}.{field}[{place}]", {} if one is None else one, self.problems)
            for place, one in enumerate(found)
        ]

    def wrong(self, field: str, value: Any, remedy: str) -> None:
        shown = "none" if value is None else shortened(repr(value), 64)
        self.problems.append(Problem(f"{self.place}.{field}", shown, remedy))

    def close(self) -> None:
        """Fields that nobody took are misspelt."""
        for field in self.raw:
            if field not in self._known:
                near = difflib.get_close_matches(str(field), self._known, n=1)
                self.wrong(
                    str(field),
                    self.raw[field],
                    f"no such field; {f'is {near[0]} meant?' if near else 'leave it out'}",
                )


def _said(kind: Kind[Any]) -> str:
    try:
        kind(_Nothing())
    except Unfit as unfit:
        return str(unfit)
    return "a value"


class _Nothing:
    """No value of any kind."""


def count(low: int, high: int) -> Kind[int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Unfit(f"a whole number from {low} to {high}")
        return value

    return read


def number(low: float, high: float) -> Kind[float]:
    def read(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not fits or not low <= value <= high:
            raise Unfit(f"a number from {low:g} to {high:g}")
        return float(value)

    return read


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unfit("true or false")
    return value


def word(words: Iterable[T]) -> Kind[T]:
    """One of these: members of an enum, or keys of a table."""
    table = {str(one): one for one in words}

    def read(value: Any) -> T:
        if not isinstance(value, str) or value not in table:
            raise Unfit(f"one of {', '.join(table)}")
        return table[value]

    return read


def name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise Unfit("a name of letters, digits, '-', '_', '.' and '/'")
    return value


def path(value: Any) -> str:
    fits = isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()
    if not fits or not (value == "" or value.startswith("/")) or ".." in value.split("/"):
        raise Unfit("an absolute path, without '..'")
    return str(value)


def record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unfit("an object")
    return value


def texts(value: Any) -> dict[str, str]:
    """Names and their values, both texts, as an environment has them."""
    fits = isinstance(value, dict) and all(
        isinstance(one, str) and one and "=" not in one and "\0" not in one + str(text)
        and isinstance(text, str) and len(text) <= _LONGEST
        for one, text in value.items()
    )  # fmt: skip
    if not fits:
        raise Unfit('names and texts, such as LEARNING_RATE: "0.1"')
    return dict(value)


def rows(most: int) -> Kind[list[Any]]:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise Unfit(f"a list of at most {most} objects")
        return value

    return read


def duration(low: float, high: float) -> Kind[float]:
    """Seconds, from Go's way of writing: 90s, 10m, 1h30m."""

    def read(value: Any) -> float:
        seconds = durations.seconds(value) if isinstance(value, str) else None
        if seconds is None or not low <= seconds <= high:
            raise Unfit(f"a duration such as 90s, 10m or 1h30m, from {low:g} to {high:g} seconds")
        return seconds

    return read
