# ruff: noqa: TID252, SLF001 - this package has no absolute name; Horovod's states keep their seams private
"""TensorFlow 2, eager: `TensorFlowState`, `TensorFlowKerasState` and derived classes.

This module corrects three gaps of Horovod 0.28.1. `TensorFlowState.sync` broadcasts its variables only through a
TensorFlow 1 session; without one, newcomers would keep their own weights, so this module broadcasts them. An optimizer
that is not built has fewer variables than a built one, and the broadcast of the difference never ends, so it is built
first. And an `UnknownError` that does not name Horovod is an error of the script.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from typing import Any, Callable, Iterator, Sequence

from .. import step_timer
from ..rehearsal_snapshot import Snapshot
from ..runtime_errors import CheckpointError
from ..script_scope import trackable
from ..state_codec import shape
from . import tensorflow_random
from .plain import AGREEMENT, ATTRIBUTES, Plain
from .tensorflow_random import SHUFFLED, shuffles

SMALL = 1 << 18
"""Maximum bytes of a variable that is broadcast together with others; copying a larger one costs more than a
negotiation.
"""

FUSED = frozenset({"float16", "bfloat16", "float32", "float64", "int16", "int32", "int64"})
"""Types that are concatenated as bytes; others are broadcast separately."""

STATE = "gangwright.state"
"""Name of the collective of concatenated variables."""


class TensorFlow(Plain):
    """The variables of the state, then those of its optimizer, in the order in which Horovod broadcasts them."""

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self._tf = importlib.import_module("tensorflow")
        self._hvd = importlib.import_module("horovod.tensorflow")
        self._traced: dict[int, Any] = {}
        """Variables that were created inside a traced function, by identity."""

    @staticmethod
    def eager() -> bool:
        """False in a TensorFlow 1 script, whose state counts as a plain one."""
        return bool(importlib.import_module("tensorflow").executing_eagerly())

    def prepare(self) -> None:
        optimizer, model = self._optimizer(), getattr(self.state, "model", None)
        if optimizer is not None and model is not None:
            weights = list(model.trainable_variables)
            build = getattr(optimizer, "build", None) or getattr(optimizer, "_create_all_weights", None)
            if build is not None:  # optimizers of TensorFlow 1 create their variables only in the first step
                with contextlib.suppress(NotImplementedError):
                    build(weights)
        self.state.save()

    def shapes(self) -> list[str]:
        return [shape(one.dtype.name, one.shape.as_list()) for one in self._variables()]

    def sync(self, plain: str | None) -> None:
        if self._listed() is None:
            self.state._bcast_model = self.broadcast_tensors
        elif plain is None:
            self.broadcast_tensors()
        super().sync(plain)

    def broadcast(self, numbers: Sequence[int]) -> list[int]:
        mine = self._tf.constant(list(numbers), self._tf.int64)
        heard = self._hvd.broadcast(mine, 0, name=AGREEMENT)
        return [int(one) for one in heard.numpy()]

    def shutdown(self) -> None:
        self._hvd.shutdown()

    def stamp(self) -> step_timer.Stamp:
        return step_timer.start()

    @contextlib.contextmanager
    def undone(self, kept: Snapshot) -> Iterator[None]:
        alive = _alive()
        values = [
            (one, value)
            for one, value in ((one, _value(one)) for one in alive if not shuffles(one))
            if value is not None
        ]
        back = tensorflow_random.keep([one for one in alive if shuffles(one)])
        with super().undone(kept), tensorflow_random.forgotten():
            try:
                with self._tf.variable_creator_scope(_recorder(self._tf, values, self._traced)):
                    yield
            finally:
                for variable, value in values:
                    variable.assign(value)
                back()
        self._traced.clear()

    def stays(self, value: Any) -> bool:
        """True for a variable that was created while a function was traced, and for a layer that has one."""
        theirs: Any = getattr(value, "variables", ()) if trackable(type(value)) else ()
        return any(id(one) in self._traced for one in (value, *(theirs() if callable(theirs) else theirs)))

    def export(self) -> dict[str, Any]:
        return {**super().export(), "variables": list(self._committed())}

    def load(self, tree: Any) -> None:
        variables = self._variables()
        if len(variables) != len(tree["variables"]):
            raise CheckpointError(
                f"the checkpoint has {len(tree['variables'])} variables, but model and optimizer have {len(variables)}"
            )
        for number, variable in enumerate(variables):
            variable.assign(tree["variables"][number])
        super().load({ATTRIBUTES: {name: self._as_now(name, one) for name, one in tree[ATTRIBUTES].items()}})

    def _as_now(self, name: str, value: Any) -> Any:
        """A plain value in the form of the script: its own variable, a tensor, or the stored value."""
        mine: Any = getattr(self.state, name, None)
        if isinstance(mine, self._tf.Variable):
            mine.assign(value)
            return mine
        return self._tf.convert_to_tensor(value, mine.dtype) if self._tf.is_tensor(mine) else value

    def as_array(self, leaf: Any) -> Any:
        return leaf.numpy() if hasattr(leaf, "numpy") else super().as_array(leaf)

    def broadcast_tensors(self) -> None:
        """All ranks receive rank 0's variables: all small ones in one broadcast, the large ones separately.

        Horovod broadcasts one tensor after the other, each with its own negotiation; a network has dozens of biases.
        """
        small: list[Any] = []
        large: list[Any] = []
        for variable in self._variables():
            (small if variable.dtype.name in FUSED and _bytes(variable) <= SMALL else large).append(variable)
        if small:
            self._broadcast_as_one(small)
        if large:
            self._hvd.broadcast_variables(large, root_rank=0)

    def _broadcast_as_one(self, variables: Sequence[Any]) -> None:
        tf = self._tf
        mine = tf.concat([tf.reshape(tf.bitcast(one, tf.uint8), [-1]) for one in variables], 0)
        heard = self._hvd.broadcast(mine, 0, name=STATE)
        if self._hvd.rank() == 0 and self._hvd.size() > 1:
            return  # alone, in the warm-up, the rest is rehearsed: the first use of an operation costs a millisecond
        parts = tf.split(heard, [_bytes(one) for one in variables])
        for number, variable in enumerate(variables):
            # four bytes make one float32: bitcast removes the last dimension
            part = tf.reshape(parts[number], [*variable.shape, variable.dtype.size])
            variable.assign(tf.bitcast(part, variable.dtype))

    def _listed(self) -> Any:
        return None if hasattr(self.state, "model") else getattr(self.state, "variables", None)

    def _optimizer(self) -> Any:
        return getattr(self.state, "optimizer", None)

    def _variables(self) -> list[Any]:
        listed = self._listed()
        if listed is not None:
            return list(listed)
        optimizer = self._optimizer()
        theirs = getattr(optimizer, "variables", ()) if optimizer is not None else ()
        return [*self.state.model.variables, *(theirs() if callable(theirs) else theirs)]

    def _committed(self) -> list[Any]:
        if self._listed() is not None:
            return list(self.state._values)
        return [*self.state._saved_model_state, *self.state._saved_optimizer_state]


def _bytes(variable: Any) -> int:
    return int(variable.shape.num_elements() or 0) * int(variable.dtype.size)


def _alive() -> list[Any]:
    """All variables of this process and all shuffling data sets, in the state or not. This includes an optimizer that
    the script did not put in the state, and objects that it froze in the garbage collector.
    """
    variable = importlib.import_module("tensorflow").Variable
    frozen = gc.get_freeze_count()
    if frozen:
        gc.unfreeze()
    try:
        objects = gc.get_objects()
        kinds = {
            kind
            for kind in set(map(type, objects))
            if issubclass(kind, variable) or kind.__name__ == SHUFFLED
        }
        return [one for one in objects if type(one) in kinds]
    finally:
        if frozen:
            gc.freeze()


def _value(variable: Any) -> Any:
    try:
        value = variable.numpy().copy()
    except Exception:  # noqa: BLE001 - not initialized, of a graph, or a string: a step cannot change it
        return None
    return value if variable.shape.is_compatible_with(value.shape) else None  # empty: not initialized either


def _recorder(tf: Any, born: list[Any], traced: dict[int, Any]) -> Callable[..., Any]:
    """Records every variable that is created inside the block with its initial value, which is zero for slots of
    optimizers. Also records the variables that a traced function creates.
    """
    context = importlib.import_module("tensorflow.python.eager.context").context()

    def create(make: Callable[..., Any], **words: Any) -> Any:
        variable = make(**words)
        if any(one.is_building_function for one in context.context_switches.stack):
            traced[id(variable)] = variable
        with tf.init_scope():
            value = _value(variable)
        if value is None:
            value = _constant(tf, words.get("initial_value"))
        if value is not None:
            born.append((variable, value))
        return variable

    return create


def _constant(tf: Any, initial: Any) -> Any:
    """The initial value of a variable that is set when its function is called; None if it is not a constant."""
    with contextlib.suppress(Exception), tf.Graph().as_default():
        return tf.get_static_value(tf.convert_to_tensor(initial() if callable(initial) else initial))
    return None
