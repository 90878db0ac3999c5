"""What is copied and put back as a whole: sources of chance, arrays, tensors, and iterators that know their place.

Every library is looked for among the modules that are there already; what was never imported has no objects. An array or
a tensor of more than `LARGE` bytes is taken for a data set, which a training reads. Weights and optimizers have no limit.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from typing import Any, Callable, Optional

from .iterators import NotCopied

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
