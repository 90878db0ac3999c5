# ruff: noqa: TID252, SLF001 - this package has no absolute name; TensorFlow keeps all of this private
"""TensorFlow's random states: seeds, operations that remember their draws, and data sets that shuffle.

A shuffled data set keeps a generator of seeds, from which each new iterator takes the next order. It has no function
for its position. But an iterator's checkpoint contains the position, and restoring the checkpoint sets it in the data
set's generator. So the position is read from a checkpoint of a new iterator, and restored through a modified one.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Callable, Iterator, Sequence

from ..training_progress import say

PLACE = "epoch_num_random_samples"
"""The name in an iterator's checkpoint of the count of numbers that the data set's generator has returned."""

TAKEN = 2
"""Numbers that a new iterator takes."""

IGNORE = 1
"""`ExternalStatePolicy.IGNORE`: the source of a data set does not matter here."""

SHUFFLED = "_ShuffleDataset"
"""The class of data sets that shuffle."""

SEEDS = ("seed", "seed2")
"""The attributes of operations that remember their draws."""

OF_DATA = "_Dataset_"
"""Part of the names of functions that data sets call."""

APART = "DEFAULT"
"""Another name of the executor without a name. Kernels are cached by the name, so the two have separate kernels."""

KERAS = ("keras.src.backend", "keras.backend", "tf_keras.src.backend")
"""Modules in which Keras keeps the generator of `set_random_seed`."""


def keep(shuffled: Sequence[Any]) -> Callable[[], None]:
    """A function that restores the seeds, and the position of each of these data sets. Failures are logged."""
    context = importlib.import_module("tensorflow.python.eager.context").context()
    eager = {name: getattr(context, name) for name in ("_seed", "_rng") if hasattr(context, name)}
    sources = [one for one in (eager.get("_rng"), *_of_keras()) if one is not None]
    states = [one.getstate() for one in sources]
    orders = [(one, place) for one, place in ((one, _place(one)) for one in shuffled) if place is not None]

    def put_back() -> None:
        vars(context).update(eager)
        for one, state in zip(sources, states):
            one.setstate(state)
        for one, place in orders:
            _place(one, place)

    return put_back


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Context after which operations with a seed draw as if the block had not run.

    Their draws are stored in their kernels. If traced functions may have drawn before, the block uses separate kernels.
    Otherwise the block's kernels are discarded, if it created operations with a seed. Traces stay.
    """
    seeds: Any = importlib.import_module("tensorflow.python.framework.random_seed")
    eager: Any = importlib.import_module("tensorflow.python.eager.context")
    context = eager.context()
    original, seeded = seeds.get_seed, []

    def get_seed(op_seed: Any) -> Any:
        found = original(op_seed)
        if found != (None, None) and (op_seed is not None or not context.executing_eagerly()):
            seeded.append(found)
        return found

    drawn = _any_seeded(context)
    seeds.get_seed = get_seed
    try:
        with eager.function_executor_type(APART) if drawn else contextlib.nullcontext():
            yield
    finally:
        seeds.get_seed = original
        if seeded and not drawn:
            context.clear_kernel_cache()


def _any_seeded(context: Any) -> bool:
    """Whether an operation of a traced function has a seed. Iterators have kernels of their own."""
    names = context.list_function_names() if hasattr(context, "list_function_names") else ()
    called = (name for name in names if OF_DATA not in name)
    nodes = (node for name in called for node in context.get_function_def(name).node_def)
    return any(node.attr[word].i for node in nodes for word in SEEDS if word in node.attr)


def shuffles(value: Any) -> bool:
    """Whether an object is a data set with another order every time, from a seed. Without a seed it is random."""
    if type(value).__name__ != SHUFFLED or not getattr(value, "_reshuffle_each_iteration", False):
        return False
    seeds = (getattr(value, name, 0) for name in ("_seed", "_seed2"))
    return hasattr(value._variant_tensor, "numpy") and any(int(one) for one in seeds)


def _of_keras() -> list[Any]:
    held: list[Any] = [getattr(sys.modules.get(name), "_SEED_GENERATOR", None) for name in KERAS]
    found = [getattr(one, "generator", None) for one in held]
    return [one for one in found if one is not None]


def _place(shuffled: Any, place: int | None = None) -> int | None:
    """Moves a data set to a position; None: returns its position without a move."""
    tf: Any = sys.modules["tensorflow"]
    protos = importlib.import_module("tensorflow.core.framework.tensor_pb2")
    ops = importlib.import_module("tensorflow.python.ops.gen_experimental_dataset_ops")
    iterators = importlib.import_module("tensorflow.python.ops.gen_dataset_ops")
    try:
        new = iter(shuffled)._iterator_resource
        checkpoint = _Checkpoint(_proto(protos, iterators.serialize_iterator(new, IGNORE)), protos)
        packed = tf.io.parse_tensor(checkpoint.part.tensors[0].SerializeToString(), tf.variant)
        numbers = ops.uncompress_element(packed, [tf.int64] * checkpoint.count, [[]] * checkpoint.count)
        place = int(numbers[checkpoint.at]) - TAKEN if place is None else place
        numbers[checkpoint.at] = tf.constant(place, tf.int64)
        changed = checkpoint.changed(_proto(protos, ops.compress_element(numbers)))
        iterators.deserialize_iterator(new, tf.io.parse_tensor(changed.SerializeToString(), tf.variant))
    except Exception as error:  # noqa: BLE001 - another release of TensorFlow, with another checkpoint format
        say(f"cannot restore the order of {shuffled} after the rehearsal: {type(error).__name__}")
        return None
    return place


class _Checkpoint:
    """A checkpoint of an iterator, as TensorFlow writes it: the lengths of all parts, then the parts. One of them
    contains the position.
    """

    def __init__(self, whole: Any, protos: Any) -> None:
        self._whole, content = whole, whole.tensor_content
        self._lengths, first = _lengths(content, whole.tensor_shape.dim[0].size)
        start = first
        for number, length in enumerate(self._lengths):
            end = start + length
            self.part = protos.VariantTensorDataProto.FromString(content[start:end])
            names = self.part.metadata.decode().split("@@")[1:]
            if PLACE in names:
                self.at, self.count = names.index(PLACE), len(names)
                self._number, self._before, self._after = number, content[first:start], content[end:]
                return
            start = end
        raise LookupError(PLACE)

    def changed(self, numbers: Any) -> Any:
        """The checkpoint with these numbers in the part that contains the position."""
        self.part.tensors[0].CopyFrom(numbers)
        part = self.part.SerializeToString()
        self._lengths[self._number] = len(part)
        lengths = b"".join(map(_varint, self._lengths))
        self._whole.tensor_content = lengths + self._before + part + self._after
        return self._whole


def _proto(protos: Any, tensor: Any) -> Any:
    return protos.TensorProto.FromString(sys.modules["tensorflow"].io.serialize_tensor(tensor).numpy())


def _lengths(content: bytes, count: int) -> tuple[list[int], int]:
    """`count` varints, and the offset of their end."""
    found, at = [], 0
    for _ in range(count):
        number = shift = 0
        while True:
            byte = content[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        found.append(number)
    return found, at


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))
