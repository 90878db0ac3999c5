"""Where values stand, in a cell, a module, a class, an object or a container, and how they are put back there in place.

What a traced function of TensorFlow has made for itself, where nothing was before, stays (`Stays`): the function would
not make it again. Only what has changed is written.
"""

from __future__ import annotations

import collections
import types
from operator import is_
from typing import Any, Callable, NamedTuple, Sequence

Stays = Callable[[Any], bool]
Back = Callable[[Stays], None]

MISSING = object()


class Holder(NamedTuple):
    """One name: what it refers to (or MISSING), another value for it, none."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]
    drop: Callable[[], Any]

    def back(self, kept: Any) -> Back:
        """Puts back what `read` gave."""

        def put(stays: Stays) -> None:
            now = self.read()
            if now is kept or ((kept is None or kept is MISSING) and now is not MISSING and stays(now)):
                return
            if kept is MISSING:
                self.drop()
            else:
                self.write(kept)

        return put


def cell(one: types.CellType) -> Holder:
    """A variable that a function has from the one around it; it may be empty."""

    def read() -> Any:
        try:
            return one.cell_contents
        except ValueError:
            return MISSING

    return Holder(
        read, lambda value: setattr(one, "cell_contents", value), lambda: delattr(one, "cell_contents")
    )


def entry(room: dict[str, Any], name: str) -> Holder:
    """A global of a module, or an attribute in an object's dictionary."""
    return Holder(
        lambda: room.get(name, MISSING),
        lambda value: room.__setitem__(name, value),
        lambda: room.pop(name),
    )


def attribute(kind: type, name: str) -> Holder:
    """Of a class itself, as it was written there."""
    return Holder(
        lambda: vars(kind).get(name, MISSING),
        lambda value: type.__setattr__(kind, name, value),
        lambda: type.__delattr__(kind, name),
    )


def slot(value: Any, member: Any) -> Holder:
    """An attribute for which a class has reserved room."""

    def read() -> Any:
        try:
            return member.__get__(value)
        except AttributeError:
            return MISSING

    return Holder(read, lambda one: member.__set__(value, one), lambda: member.__delete__(value))


def names(kind: type) -> list[str]:
    """The attributes of a class that are not Python's own."""
    return [name for name in vars(kind) if not name.startswith(("__", "_abc_"))]


def no_new_names(kind: type) -> Back:
    """Removes from a class what was not there."""
    kept = frozenset(names(kind))

    def put(stays: Stays) -> None:
        for name in names(kind):
            if name not in kept and not stays(vars(kind)[name]):
                type.__delattr__(kind, name)

    return put


def mapping(value: dict[Any, Any]) -> Back:
    """A dictionary of any kind, with its order."""
    kept = dict(value)
    base: Any = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict

    def put(stays: Stays) -> None:
        now = dict(value)
        grown = {
            key: one for key, one in now.items() if kept.get(key) is None and one is not None and stays(one)
        }
        wanted = {**kept, **grown}
        if _same(list(now), list(wanted)) and _same(list(now.values()), list(wanted.values())):
            return
        base.clear(value)
        for key, one in wanted.items():
            base.__setitem__(value, key, one)

    return put


def sequence(value: Any) -> Back:
    """A list, an array of Python's, or a queue with two ends."""
    kept = list(value)

    def put(stays: Stays) -> None:
        now = list(value)
        grown = now[len(kept) :]
        if _same(now[: len(kept)], kept) and all(map(stays, grown)):
            return
        if isinstance(value, collections.deque):
            value.clear()
            value.extend(kept)
        else:
            value[:] = type(value)(value.typecode, kept) if hasattr(value, "typecode") else kept

    return put


def members(value: set[Any]) -> Back:
    """A set."""
    kept = set(value)

    def put(_stays: Stays) -> None:
        if set(value) != kept:
            set.clear(value)
            set.update(value, kept)

    return put


def _same(now: Sequence[Any], kept: Sequence[Any]) -> bool:
    """By identity: to compare arrays says nothing, and takes long."""
    return len(now) == len(kept) and all(map(is_, now, kept))
