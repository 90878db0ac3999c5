"""How each kind of value is kept and put back: the places where values stand, and objects as a whole.

Places are cells, modules, classes, objects and containers. They are put back in place, and only where something has
changed. What a traced function of TensorFlow has made for itself, where nothing was before, stays (`Stays`): the function
would not make it again.

Copied as a whole are random generators, arrays, tensors, and iterators that know their position. `copy.copy` is not
enough: a copied `enumerate` draws from the iterator of the original. Never here: generators and iterators of libraries,
which do not tell their position. Every library is looked for among the modules that are loaded already; one that was never
imported has no objects. An array or a tensor of more than `LARGE` bytes is taken for a data set. Weights and optimizers
have no limit.
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
"""Types whose copies share more than what they draw from."""

LARGE = 64 << 20
"""Bytes. Counters, masks and averages of metrics have less; a copy of more may not find room beside a data set."""

Whole = Optional[Callable[[], None]]
"""Puts one object back; None for what is nothing of that kind."""


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


Known = Dict[int, Tuple[Any, Any]]
"""Originals, by identity, with their copies; an original that lives on leaves its identity to no other."""


class NotCopied(Exception):  # noqa: N818 - read as a word where it is caught
    """An iterator, one that it draws from, or a tensor, cannot be copied."""


def is_iterator(value: Any) -> bool:
    """Whether it is one, of any kind. The type is asked: libraries have objects that answer to every name."""
    return hasattr(type(value), "__next__")


def copied(value: Any, inner: Callable[[Any], Any], known: Known) -> Any:
    """A copy at the same place. `inner` gives what the copy has in place of anything else that the original refers to.
    Two that draw from one do so still, by what is `known`.
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
    """Whether its `__reduce__` says all of its place. From Python 3.14 on those of itertools have none."""
    kind = type(value)
    return (
        is_iterator(value)
        and kind.__module__ in {"builtins", "itertools"}
        and "__reduce__" in vars(kind)
        and kind not in SHARED
    )


def _own(state: Any) -> Any:
    """`cycle` adds to its list of what it has seen."""
    return tuple(list(one) if type(one) is list else one for one in state) if type(state) is tuple else state


def keep(value: Any, weighs: bool) -> Whole:
    """What puts `value` back as it is now. `weighs`: it belongs to a model or to an optimizer. Raises NotCopied where it
    is of such a kind and cannot be copied.
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
    """The gradient that a tensor of PyTorch holds, a tensor itself."""
    torch: Any = sys.modules.get("torch")
    return value.grad if torch is not None and isinstance(value, torch.Tensor) and value.is_leaf else None


def weights(value: Any) -> list[Any]:
    """The tensors of a compiled module of PyTorch, which has none among its attributes."""
    torch: Any = sys.modules.get("torch")
    compiled = torch is not None and isinstance(value, torch.jit.ScriptModule)
    return [*value.parameters(), *value.buffers()] if compiled else []


def _nothing() -> None:
    """A data set, or what nothing can change."""


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
    if hasattr(type(value), "materialize"):  # the first step will give it, and its module, another class
        raise NotCopied
    data, gradient, wanted = value.data, grad(value), value.requires_grad
    try:
        if not (weighs or wanted) and value.numel() * value.element_size() > LARGE:
            return _nothing
        kept = data.to("cpu", copy=True)  # a device may have no room for one more
    except (RuntimeError, ValueError, NotImplementedError) as error:  # without memory
        raise NotCopied from error

    def back() -> None:
        with torch.no_grad():
            if value.data_ptr() != data.data_ptr():  # moved to a device, which gave it other memory
                value.data = data
            data.copy_(kept)
        if value.is_leaf:
            value.requires_grad_(wanted)
            value.grad = gradient

    return back


def _tensorflow(tf: Any, value: Any, _weighs: bool) -> Whole:
    """An iterator of `tf.data`, with its buffers; one over a Python generator has no such form."""
    iterator = getattr(value, "_iterator_resource", None) if isinstance(value, tf.data.Iterator) else None
    if iterator is None:
        return None
    try:
        kept = value._serialize_to_tensors()  # noqa: SLF001 - as a checkpoint of TensorFlow has it
    except (AttributeError, tf.errors.OpError) as error:
        raise NotCopied from error
    return lambda: value._restore_from_tensors(kept)  # noqa: SLF001


def place(file: Any) -> Callable[[], None]:
    """Of a file that is read, the place in it."""
    with contextlib.suppress(OSError, ValueError):
        if file.readable() and file.seekable() and not file.writable():
            at = file.tell()
            return lambda: file.seek(at)
    return _nothing


def flows(value: Any) -> bool:
    """Whether it changes by itself, such as a queue that a thread of the script fills, or that thread."""
    queues = tuple(getattr(sys.modules.get("queue"), name, ()) for name in ("Queue", "SimpleQueue"))
    kind = type(value)
    remote = kind.__module__ == "multiprocessing.queues"
    return remote or isinstance(value, queues) or (isinstance(value, threading.Thread) and value.is_alive())
