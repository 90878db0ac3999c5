"""Backup and restoration of each kind of value: places that hold values, and whole objects.

Places are cells, modules, classes, objects and containers. They are restored in place, and only if something has
changed. New objects that a traced function of TensorFlow has created for itself stay (`Stays`), because the function
would not create them a second time.

Random generators, arrays, tensors, and iterators that know their position are copied as a whole. `copy.copy` is not
enough: a copied `enumerate` draws from the iterator of the original. Never here: generators and iterators of libraries,
which do not expose their position. Libraries are looked up among the loaded modules; one that was never imported has no
objects. An array or a tensor of more than `LARGE` bytes counts as a data set. Weights and optimizers have no limit.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import random
import sys
import threading
import types
from operator import is_
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

Stays = Callable[[Any], bool]
Back = Callable[[Stays], None]

MISSING = object()

SHARED = {itertools.groupby, type(itertools.tee("")[0])}
"""Types whose copies share more than their source."""

LARGE = 64 << 20
"""Bytes. Counters, masks and averages of metrics are smaller; a larger copy may not fit next to a data set."""

Whole = Optional[Callable[[], None]]
"""Restores one object; None for an object of another kind."""


class Holder(NamedTuple):
    """One name: functions to read its value (or MISSING), to write it, and to delete it."""

    read: Callable[[], Any]
    write: Callable[[Any], Any]
    drop: Callable[[], Any]

    def back(self, kept: Any) -> Back:
        """Restores the value that `read` returned."""

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
    """A variable of a function that comes from an enclosing one; it may be empty."""

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
    """An attribute of a class itself, without descriptor access."""
    return Holder(
        lambda: vars(kind).get(name, MISSING),
        lambda value: type.__setattr__(kind, name, value),
        lambda: type.__delattr__(kind, name),
    )


def slot(value: Any, member: Any) -> Holder:
    """An attribute in a slot."""

    def read() -> Any:
        try:
            return member.__get__(value)
        except AttributeError:
            return MISSING

    return Holder(read, lambda one: member.__set__(value, one), lambda: member.__delete__(value))


def names(kind: type) -> list[str]:
    """The attributes of a class, without Python's own."""
    return [name for name in vars(kind) if not name.startswith(("__", "_abc_"))]


def no_new_names(kind: type) -> Back:
    """Removes new attributes from a class."""
    kept = frozenset(names(kind))

    def put(stays: Stays) -> None:
        for name in names(kind):
            if name not in kept and not stays(vars(kind)[name]):
                type.__delattr__(kind, name)

    return put


def mapping(value: dict[Any, Any]) -> Back:
    """A dictionary of any kind, including its order."""
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
    """A list, a Python array, or a deque."""
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
    """Compares by identity: a comparison of arrays is not a truth value, and slow."""
    return len(now) == len(kept) and all(map(is_, now, kept))


Known = Dict[int, Tuple[Any, Any]]
"""Originals, by identity, with their copies. The originals are kept alive, so that no identity is reused."""


class NotCopied(Exception):  # noqa: N818 - a condition, not an error
    """An iterator, one of its sources, or a tensor, cannot be copied."""


def is_iterator(value: Any) -> bool:
    """Whether it is an iterator of any kind. Checks the type: some objects of libraries answer to every name."""
    return hasattr(type(value), "__next__")


def copied(value: Any, inner: Callable[[Any], Any], known: Known) -> Any:
    """A copy at the same position. `inner` returns the replacement of any other object that the original refers to.
    With `known`, two iterators with a common source have a common source in their copies.
    """
    if id(value) in known:
        return known[id(value)][1]
    if not _tells(value):
        raise NotCopied
    make, arguments, state = (*value.__reduce__(), None)[:3]

    def other(one: Any) -> Any:
        if type(one) is tuple:
            return tuple(other(part) for part in one)
        return copied(one, inner, known) if _tells(one) else inner(one)

    copy = make(*other(arguments))
    if state is not None:
        copy.__setstate__(_own(other(state)))
    known[id(value)] = value, copy
    return copy


def _tells(value: Any) -> bool:
    """Whether its `__reduce__` contains its whole position. From Python 3.14 on, iterators of itertools have none."""
    kind = type(value)
    return (
        is_iterator(value)
        and kind.__module__ in {"builtins", "itertools"}
        and "__reduce__" in vars(kind)
        and kind not in SHARED
    )


def _own(state: Any) -> Any:
    """The state with lists copied, because `cycle` appends to its list."""
    return tuple(list(one) if type(one) is list else one for one in state) if type(state) is tuple else state


def keep(value: Any, weighs: bool) -> Whole:
    """A function that restores the current state of `value`; None for other kinds. `weighs`: the value belongs to a
    model or an optimizer. Raises NotCopied if it is of such a kind and cannot be copied.
    """
    if isinstance(value, random.Random):
        return _random(value)
    for room, look in (("numpy", _numpy), ("torch", _torch), ("tensorflow", _tensorflow)):
        library: Any = sys.modules.get(room)
        if library is not None:
            back = look(library, value, weighs)
            if back is not None:
                return back
    return None


def grad(value: Any) -> Any:
    """The gradient of a PyTorch tensor, a tensor itself."""
    torch: Any = sys.modules.get("torch")
    return value.grad if torch is not None and isinstance(value, torch.Tensor) and value.is_leaf else None


def weights(value: Any) -> list[Any]:
    """The tensors of a compiled PyTorch module, which are not among its attributes."""
    torch: Any = sys.modules.get("torch")
    compiled = torch is not None and isinstance(value, torch.jit.ScriptModule)
    return [*value.parameters(), *value.buffers()] if compiled else []


def _nothing() -> None:
    """Restores nothing: a data set, or an immutable object."""


def _random(value: random.Random) -> Whole:
    if isinstance(value, random.SystemRandom):
        return _nothing
    state = value.getstate()
    return lambda: value.setstate(state)


def _numpy(numpy: Any, value: Any, _weighs: bool) -> Whole:
    if isinstance(value, numpy.ndarray):
        if not value.flags.writeable or value.nbytes > LARGE:
            return _nothing
        kept = value.copy()
        return lambda: numpy.copyto(value, kept)
    chance = numpy.random
    if isinstance(value, chance.RandomState):
        place = value.get_state(legacy=False)
        return lambda: value.set_state(place)
    source = value.bit_generator if isinstance(value, chance.Generator) else value
    if not isinstance(source, chance.BitGenerator):
        return None
    state = source.state
    return lambda: setattr(source, "state", state)


def _torch(torch: Any, value: Any, weighs: bool) -> Whole:
    if isinstance(value, torch.Generator):
        state = value.get_state()
        return lambda: value.set_state(state)
    if not isinstance(value, torch.Tensor):
        return None
    if hasattr(type(value), "materialize"):  # the first step changes its class and that of its module
        raise NotCopied
    data, gradient, wanted = value.data, grad(value), value.requires_grad
    try:
        if not (weighs or wanted) and value.numel() * value.element_size() > LARGE:
            return _nothing
        kept = data.to("cpu", copy=True)  # a device may have no memory for another copy
    except (RuntimeError, ValueError, NotImplementedError) as error:  # out of memory
        raise NotCopied from error

    def back() -> None:
        with torch.no_grad():
            if value.data_ptr() != data.data_ptr():  # it was moved to a device, into other memory
                value.data = data
            data.copy_(kept)
        if value.is_leaf:
            value.requires_grad_(wanted)
            value.grad = gradient

    return back


def _tensorflow(tf: Any, value: Any, _weighs: bool) -> Whole:
    """An iterator of `tf.data`, with its buffers; one over a Python generator cannot be serialized."""
    iterator = getattr(value, "_iterator_resource", None) if isinstance(value, tf.data.Iterator) else None
    if iterator is None:
        return None
    try:
        kept = value._serialize_to_tensors()  # noqa: SLF001 - as a checkpoint of TensorFlow does
    except (AttributeError, tf.errors.OpError) as error:
        raise NotCopied from error
    return lambda: value._restore_from_tensors(kept)  # noqa: SLF001


def place(file: Any) -> Callable[[], None]:
    """Restores the position in a file that is only read."""
    with contextlib.suppress(OSError, ValueError):
        if file.readable() and file.seekable() and not file.writable():
            at = file.tell()
            return lambda: file.seek(at)
    return _nothing


def flows(value: Any) -> bool:
    """Whether another thread or process changes it, for example a queue that a thread fills, or that thread."""
    queues = tuple(getattr(sys.modules.get("queue"), name, ()) for name in ("Queue", "SimpleQueue"))
    kind = type(value)
    remote = kind.__module__ == "multiprocessing.queues"
    return remote or isinstance(value, queues) or (isinstance(value, threading.Thread) and value.is_alive())
