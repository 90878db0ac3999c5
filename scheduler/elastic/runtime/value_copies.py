"""What is copied and put back as a whole: random generators, arrays, tensors, and iterators that know their position.

`copy.copy` is not enough: a copied `enumerate` draws from the iterator of the original. Never here: generators and
iterators of libraries, which do not tell their position.
Every library is looked for among the modules that are loaded already; one that was never imported has no objects. An
array or a tensor of more than `LARGE` bytes is taken for a data set. Weights and optimizers have no limit.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple

SHARED = {itertools.groupby, type(itertools.tee("")[0])}
"""Types whose copies share more than what they draw from."""


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


LARGE = 64 << 20
"""Bytes. Counters, masks and averages of metrics have less; a copy of more may not find room beside a data set."""

Back = Optional[Callable[[], None]]
"""Puts one object back; None for what is nothing of that kind."""


def keep(value: Any, weighs: bool) -> Back:
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


def _random(value: random.Random) -> Back:
    if isinstance(value, random.SystemRandom):
        return _nothing
    state = value.getstate()
    return lambda: value.setstate(state)


def _numpy(numpy: Any, value: Any, _weighs: bool) -> Back:
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


def _torch(torch: Any, value: Any, weighs: bool) -> Back:
    if isinstance(value, torch.Generator):
        state = value.get_state()
        return lambda: _none(value.set_state(state))
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


def _tensorflow(tf: Any, value: Any, _weighs: bool) -> Back:
    """An iterator of `tf.data`, with its buffers; one over a Python generator has no such form."""
    iterator = getattr(value, "_iterator_resource", None) if isinstance(value, tf.data.Iterator) else None
    if iterator is None:
        return None
    try:
        kept = value._serialize_to_tensors()  # noqa: SLF001 - as a checkpoint of TensorFlow has it
    except (AttributeError, tf.errors.OpError) as error:
        raise NotCopied from error
    return lambda: _none(value._restore_from_tensors(kept))  # noqa: SLF001


def place(file: Any) -> Callable[[], None]:
    """Of a file that is read, the place in it."""
    with contextlib.suppress(OSError, ValueError):
        if file.readable() and file.seekable() and not file.writable():
            at = file.tell()
            return lambda: _none(file.seek(at))
    return _nothing


def _none(_answer: Any) -> None:
    """Its argument has been worked out for what that does."""


def flows(value: Any) -> bool:
    """Whether it changes by itself, such as a queue that a thread of the script fills, or that thread."""
    queues = tuple(getattr(sys.modules.get("queue"), name, ()) for name in ("Queue", "SimpleQueue"))
    kind = type(value)
    remote = kind.__module__ == "multiprocessing.queues"
    return remote or isinstance(value, queues) or (isinstance(value, threading.Thread) and value.is_alive())
