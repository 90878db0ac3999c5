# ruff: noqa: SLF001 - the seams of Horovod's Python layer are private
"""Measures when a step's own work was done and its first gradient entered the collective.

Step times are equal on all ranks by construction; a straggler shows in the time until its gradients are ready. In a
traced step no Python runs, so one operation is added to the graph at the first allreduce. It waits for that gradient
(usually the first layer's, which backpropagation computes last) and writes the time into a variable. That is one
operation per step, microseconds. `GANGWRIGHT_COMPUTE=off` leaves graphs alone (a step compiled by XLA needs that).

PyTorch runs Python in every step. There gradients enter the collective one by one while others are still being
computed. A step's own work is done when the distributed optimizer begins to wait for them.

Graphs can only read the wall clock, which may be set at any time. So their times are converted to the monotonic clock
by the offset of the two. A step during which the offset changed has no compute time, because the worker would look like
a straggler.
"""

from __future__ import annotations

import importlib
import os
import time
import weakref
from typing import Any, Callable, Optional

SLIP, DRIFT = 0.01, 0.001
"""Tolerated change of the offset between the wall clock and the monotonic clock during a step: seconds, plus a fraction
of the step time. They are not read at the same moment, and not slewed alike everywhere. A larger change means that the
clock was set, or is too imprecise."""


def ahead() -> float:
    """Seconds by which the clock of TensorFlow's `timestamp` is ahead of the monotonic one."""
    return time.time_ns() / 1e9 - time.monotonic()


class Stamp:
    """The time of the last mark, and of the step's beginning, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._at = 0.0
        self._began = time.monotonic()

    def begin(self) -> None:
        """The step's own work begins now."""
        self._began = time.monotonic()

    def marked(self) -> bool:
        """Whether there was a mark in this step."""
        return self._at > self._began

    def compute(self) -> float | None:
        """Seconds from the step's beginning to the mark; None if unknown."""
        return self._at - self._began if self.marked() else None

    def mark(self) -> None:
        self._at = time.monotonic()

    def last(self) -> float:
        """A number that changes with every mark, and only then."""
        return self._at


class GraphStamp(Stamp):
    """The time of the latest step's first allreduce, inside or outside a graph of TensorFlow."""

    def __init__(self) -> None:
        super().__init__()
        tf = importlib.import_module("tensorflow")
        self._tf = tf
        with tf.device("CPU:0"):
            self.variable = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="gangwright_stamp")
        self._graphs: Any = weakref.WeakSet()
        self._lone: Any = weakref.WeakSet()
        self._ahead = ahead()
        self._former = 0.0
        """The time that the graph wrote in an earlier step."""
        self._seen = 0.0
        """The beginning of the last step that is known to have a mark."""

    def begin(self) -> None:
        # read the old mark first: another thread in between would attribute it to this step
        self._ahead, self._former = ahead(), self._noted()
        super().begin()

    def marked(self) -> bool:
        """As above. A mark is valid until the next step begins. The result is cached, because a lookup is an operation
        of TensorFlow: half a millisecond of processor time in a thread that seldom runs.
        """
        began = self._began
        if self._seen != began and (super().marked() or self._noted() != self._former):
            self._seen = began
        return self._seen == began

    def compute(self) -> float | None:
        noted = self._noted()
        if noted == self._former:
            return super().compute()
        if abs(ahead() - self._ahead) > SLIP + DRIFT * (time.monotonic() - self._began):
            return None
        compute = max(self._at, noted - self._ahead) - self._began
        return compute if compute > 0 else None

    def last(self) -> float:
        return self._at + self._noted()

    def _noted(self) -> float:
        return float(self.variable.numpy())

    def passed(self, tensor: Any, size: Callable[[], Any] | None = None) -> Any:
        """Returns the tensor and records when it is ready: once per step, in a graph or eagerly. `size`: an operation
        that returns the number of members; then it records only if the worker is alone, so that Horovod reduces
        nothing.

        In a condition of its own: an operation outside would be ordered with Horovod's, and these would wait for the
        last gradient before they reduce the first (5% of a step of 66 ms, measured).
        """
        tf = self._tf
        if tf.executing_eagerly():
            self.mark()
            return tensor
        if not self._first(self._graphs if size is None else self._lone, tensor):
            return tensor
        if size is None:
            return self._noting(tensor)
        with tf.device("CPU:0"):
            others = tf.greater(size(), 1)
        return tf.cond(others, lambda: tensor, lambda: self._noting(tensor))

    def _first(self, seen: Any, tensor: Any) -> bool:
        """Whether this is the first tensor of its graph."""
        graph = _outermost(self._tf.compat.v1.get_default_graph())
        if graph in seen or not hasattr(tensor, "graph"):
            return False
        seen.add(graph)
        return True

    def _noting(self, tensor: Any) -> Any:
        tf = self._tf
        with tf.control_dependencies([tensor]):
            noted = self.variable.assign(tf.timestamp(), read_value=False)
        with tf.control_dependencies([noted]):
            return tf.identity(tensor)


_stamp: Optional[GraphStamp] = None  # noqa: UP045
_torch_stamp = Stamp()


def start() -> Stamp:
    """Starts recording in TensorFlow; returns a stamp without marks if it is switched off."""
    global _stamp  # noqa: PLW0603 - one process, one step at a time
    if _stamp is None and _wanted():
        _stamp = GraphStamp()
    return _stamp or Stamp()


def start_torch() -> Stamp:
    """Starts recording in PyTorch; returns a stamp without marks if it is switched off."""
    return _torch_stamp if _wanted() else Stamp()


def _wanted() -> bool:
    return os.environ.get("GANGWRIGHT_COMPUTE") != "off"


def patch(module: Any) -> None:
    """Makes the allreduce of `horovod.tensorflow` pass its tensors through the stamp.

    Before that, Horovod checks whether there are other members; the steps of a worker alone are recorded, too.
    """
    module._allreduce = _marking(module._allreduce, _passed)
    module._grouped_allreduce = _marking_first(module._grouped_allreduce, _passed)

    def alone(tensor: Any) -> Any:
        return _stamp.passed(tensor, module.size_op) if _stamp else tensor

    module._allreduce_cond = _marking(module._allreduce_cond, alone)
    module._grouped_allreduce_cond = _marking_first(module._grouped_allreduce_cond, alone)


def patch_torch(module: Any) -> None:
    """Makes the optimizer of `horovod.torch` record when it begins to wait. Each new optimizer copies its methods."""
    waits = module._DistributedOptimizer.synchronize

    def synchronize(self: Any) -> Any:
        _torch_stamp.mark()
        return waits(self)

    module._DistributedOptimizer.synchronize = synchronize


def _passed(tensor: Any) -> Any:
    return _stamp.passed(tensor) if _stamp else tensor


def _marking(original: Callable[..., Any], passed: Callable[[Any], Any]) -> Callable[..., Any]:
    def allreduce(tensor: Any, *args: Any, **words: Any) -> Any:
        return original(passed(tensor), *args, **words)

    return allreduce


def _marking_first(original: Callable[..., Any], passed: Callable[[Any], Any]) -> Callable[..., Any]:
    def allreduce(tensors: Any, *args: Any, **words: Any) -> Any:
        if _stamp and len(tensors):
            tensors = [passed(tensors[0]), *tensors[1:]]
        return original(tensors, *args, **words)

    return allreduce


def _outermost(graph: Any) -> Any:
    while getattr(graph, "outer_graph", None) is not None and hasattr(graph.outer_graph, "outer_graph"):
        graph = graph.outer_graph
    return graph
