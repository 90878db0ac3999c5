"""Records everything that a training function reaches before the rehearsal, and restores it in place after it.

Lives here: the walk from the function through its script. It records containers, attributes, globals, cells and
iterators. Objects keep their identity. The rehearsal draws from copies of iterators. Never here: how a value is saved
and restored (`value_backup`), and which objects belong to the script (`script_scope`). Objects of libraries, for
example models and traced functions of TensorFlow, are not restored: to build them is the purpose of the rehearsal.
"""

from __future__ import annotations

import array
import collections
import copy
import enum
import functools
import io
import sys
import types
from operator import is_
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence

from . import script_scope, value_backup
from .runtime_errors import Unmovable
from .value_backup import Known, NotCopied, copied, is_iterator

ITEMS = 10_000
"""Maximum items of a container. A larger one counts as data: it is restored itself, but its items are not visited."""

ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, range, slice})
"""Immutable types without references to mutable objects."""

CONTAINERS = (dict, list, collections.deque, tuple, set, frozenset, bytearray, array.array)
PYTHONS = frozenset({"builtins", "collections", "array"})
"""Modules whose containers are visited; subclasses of libraries keep more than their items."""

SAVED = ("_saved_", "_values", "_host_messages")
"""Prefixes of the names under which Horovod's states keep their last commit, which they replace and never change.
Messages of its own driver do not arrive here.
"""


class Snapshot:
    """The state of all reached objects at its creation. `args` and `words` are the arguments of the rehearsal."""

    def __init__(
        self,
        func: Callable[..., Any],
        state: Any,
        args: Sequence[Any] = (),
        words: Mapping[str, Any] | None = None,
    ) -> None:
        self._script, self._state = script_scope.Script(func), state
        self._seen: dict[int, Any] = {}
        """Objects by identity; kept alive, so that no identity is reused."""
        self._names: set[tuple[int, str]] = set()
        self._queue: list[tuple[Any, str, bool]] = []
        self._copies: Known = {}
        self._lent: list[Callable[[], None]] = []
        self._back: list[value_backup.Back] = []
        name = getattr(func, "__name__", type(func).__name__)
        self._go(state, "state")
        self.args = [self._go(one, f"{name}.args[{number}]") for number, one in enumerate(args)]
        self.words = {key: self._go(one, f"{name}.{key}") for key, one in (words or {}).items()}
        self._go(func, name)
        while self._queue:
            value, where, weighs = self._queue.pop()
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                try:
                    self._look(value, where, weighs)
                except Unmovable:
                    raise
                except Exception as error:  # an object may raise anything on access
                    raise _unmovable(value, where) from error

    def lend(self) -> None:
        """Replace the function's iterators by copies."""
        for lend in self._lent:
            lend()

    def put_back(self, stays: value_backup.Stays) -> None:
        """Restore everything, except new objects for which `stays` is true."""
        for back in self._back:
            back(stays)

    # --- replacements for the rehearsal ---

    def _go(self, value: Any, where: str, weighs: bool = False) -> Any:
        """Records that a value is reached; returns it, or its replacement."""
        kind = type(value)
        if kind in ATOMS or (id(value) in self._seen and id(value) not in self._copies):
            return value
        if kind is tuple:
            parts = tuple(self._go(one, f"{where}[{number}]", weighs) for number, one in _few(value))
            return value if all(map(is_, parts, value)) else parts
        if is_iterator(value) and not isinstance(value, io.IOBase) and not self._script.opens(value):
            return self._iterator(value, where)
        self._queue.append((value, where, weighs))
        return value

    def _iterator(self, value: Any, where: str) -> Any:
        if id(value) in self._seen:
            return self._copies.get(id(value), (value, value))[1]
        self._seen[id(value)] = value
        try:
            back = value_backup.keep(value, weighs=False)
            if back is None:
                return copied(value, lambda one: self._go(one, where), self._copies)
        except NotCopied:
            raise _unmovable(value, where) from None
        self._leaf(back)
        return value

    def _fixed(self, value: Any, where: str, weighs: bool = False) -> None:
        """Records a value that cannot be replaced where it is."""
        if self._go(value, where, weighs) is not value:
            raise _unmovable(value, where)

    def _hold(self, holder: value_backup.Holder, where: str, weighs: bool = False) -> None:
        kept = holder.read()
        self._back.append(holder.back(kept))
        if kept is not value_backup.MISSING:
            lent = self._go(kept, where, weighs)
            if lent is not kept:
                self._lent.append(functools.partial(holder.write, lent))

    def _items(self, value: Any, items: Iterable[tuple[Any, Any]], where: str, weighs: bool) -> None:
        for key, one in items:
            name = repr(key)[:40] if type(key) in ATOMS else type(key).__name__
            lent = self._go(one, f"{where}[{name}]", weighs)
            if lent is not one:
                self._lent.append(functools.partial(value.__setitem__, key, lent))

    def _leaf(self, back: Callable[[], None]) -> None:
        self._back.append(lambda _stays: back())

    # --- each kind of object ---

    def _look(self, value: Any, where: str, weighs: bool) -> None:
        if _is_container(value):
            self._container(value, where, weighs)
            return
        if value_backup.flows(value):
            raise _unmovable(value, where)
        back = value_backup.keep(value, weighs)
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value, where)
        elif isinstance(value, io.IOBase):
            self._leaf(value_backup.place(value))
        elif back is not None:
            self._leaf(back)
            self._go(value_backup.grad(value), f"{where}.grad", weighs=True)
        elif value is self._state or self._script.opens(value):
            self._container(value, where, weighs)
            self._attributes(value, where)
        elif script_scope.trackable(type(value)):
            self._tracked(value, where)
        for inner in script_scope.wrapped(value):
            self._fixed(inner, where)

    def _function(self, value: types.FunctionType, where: str) -> None:
        room = value.__globals__
        if not self._script.has(room.get("__name__")):
            return
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            if id(cell) not in self._seen:
                self._seen[id(cell)] = cell
                self._hold(value_backup.cell(cell), f"{where}.{name}")
        code = value.__code__
        self._globals(
            room, script_scope.names(code, only=script_scope.GLOBAL), script_scope.names(code), where
        )
        self._fixed(value.__defaults__, where)
        self._fixed(value.__kwdefaults__, where)
        self._attributes(value, where)

    def _globals(
        self, room: dict[str, Any], wanted: set[str], named: set[str], where: str, above: tuple[int, ...] = ()
    ) -> None:
        """Records the wanted globals of a module; for the script's modules among them, also the named ones."""
        for name in wanted:
            value = room.get(name, sys.modules.get(name))
            if isinstance(value, types.ModuleType):
                inner, rooms = vars(value), (*above, id(room))
                if self._script.has(value.__name__) and id(inner) not in rooms:
                    self._globals(inner, named & inner.keys(), named, f"{where}.{name}", rooms)
            elif (id(room), name) not in self._names:
                self._names.add((id(room), name))
                self._hold(value_backup.entry(room, name), f"{where}.{name}")

    def _class(self, value: type) -> None:
        """Records the own attributes of a script's class; an enumeration is immutable."""
        for kind in value.__mro__[1:]:
            self._go(kind, kind.__name__)
        if not self._script.owns(value):
            return
        if issubclass(value, enum.Enum) or script_scope.trackable(value):
            for function in script_scope.functions(value):
                self._go(function, value.__name__)
            return
        for name in value_backup.names(value):
            self._hold(value_backup.attribute(value, name), f"{value.__name__}.{name}")
        self._back.append(value_backup.no_new_names(value))

    def _container(self, value: Any, where: str, weighs: bool) -> None:
        if isinstance(value, dict):
            self._back.append(value_backup.mapping(value))
            self._go(getattr(value, "default_factory", None), where)
            self._items(value, list(value.items()) if _few(value.values()) else (), where, weighs)
        elif isinstance(value, (list, collections.deque)):
            self._back.append(value_backup.sequence(value))
            self._items(value, _few(value), where, weighs)
        elif isinstance(value, (bytearray, array.array)):
            self._back.append(value_backup.sequence(value))
        elif isinstance(value, (tuple, set, frozenset)):
            if isinstance(value, set):
                self._back.append(value_backup.members(value))
            for number, one in _few(value):
                self._fixed(one, f"{where}[{number}]", weighs)

    def _attributes(self, value: Any, where: str) -> None:
        """Records the attributes in an object's dictionary and in its slots; and its class."""
        weighs = hasattr(type(value), "load_state_dict")
        own = getattr(value, "__dict__", None)
        if type(own) is dict:
            self._back.append(value_backup.mapping(own))
            passed = self._passed(value, own, where)
            for name, one in list(own.items()):
                lent = passed[name] if name in passed else self._go(one, f"{where}.{name}", weighs)
                if lent is not one:
                    self._lent.append(functools.partial(own.__setitem__, name, lent))
        for name, member in self._script.slots(type(value)):
            self._hold(value_backup.slot(value, member), f"{where}.{name}", weighs)
        for number, one in enumerate(value_backup.weights(value)):
            self._go(one, f"{where}[{number}]", weighs=True)
        self._go(type(value), type(value).__name__)

    def _passed(self, value: Any, own: dict[str, Any], where: str) -> dict[str, Any]:
        """Replacements of attributes that are not visited: the last commit, and copies of objects of libraries. A state
        that names such an object keeps copies of it already.
        """
        if not (value is self._state or type(value).__module__.startswith("horovod.")):
            return {}
        passed = {name: one for name, one in own.items() if name.startswith(SAVED)}
        for name in getattr(value, "_saved_state", None) or ():
            if name in own and self._foreign(own[name]):
                try:
                    passed[name] = copy.deepcopy(own[name])
                except Exception:  # noqa: BLE001 - a library may raise anything
                    raise _unmovable(own[name], f"{where}.{name}") from None
        return passed

    def _foreign(self, value: Any) -> bool:
        kind = type(value)
        known = kind.__module__.partition(".")[0] in {*script_scope.FRAMEWORKS, *PYTHONS, "random"}
        return not (known or is_iterator(value) or self._script.opens(value))

    def _tracked(self, value: Any, where: str) -> None:
        """Records the numbers in the script's own models and layers of TensorFlow. The rest was built and traced, and a
        flag may record that it was.
        """
        kinds = [kind for kind in type(value).__mro__ if self._script.owns(kind)]
        names = {
            name
            for kind in kinds
            for one in script_scope.functions(kind)
            for name in script_scope.names(one.__code__)
        }
        own = vars(value) if kinds else {}
        for name in names & own.keys():
            if type(own[name]) in {int, float, str}:
                self._hold(value_backup.entry(own, name), f"{where}.{name}")
            else:
                self._fixed(own[name], f"{where}.{name}")
        for kind in kinds:
            self._go(kind, kind.__name__)


def _unmovable(value: Any, where: str) -> Unmovable:
    return Unmovable(f"{where} ({type(value).__name__})")


def _is_container(value: Any) -> bool:
    return isinstance(value, CONTAINERS) and type(value).__module__ in PYTHONS


def _few(value: Collection[Any]) -> Iterable[tuple[int, Any]]:
    """Numbered items; none for a container that counts as data, or that has only atoms."""
    if len(value) > ITEMS or ATOMS.issuperset(map(type, value)):
        return ()
    return enumerate(list(value))
