"""Rank, size and collectives while a script sets up, before it reaches its training function.

Horovod's C++ is alone then, at rank 0 of 1. Horovod's own modules, which branch on it around their collectives, get
that answer. A script divides its data and chooses its writer by rank and size, so it gets those that the master
expects. One worker runs per pod, so the local rank is 0 of 1, and the cross rank is the rank.

Collectives are real. When a gang begins, all its members set up at the same time. At the first collective they meet in
a round of their own, and Horovod runs this and later collectives. A newcomer sets up while the others train, so no
member can answer. There, collectives that reduce gradients or synchronize parameters and optimizers run alone, because
the later synchronization of the state replaces them. For any other collective the result would be wrong, so the process
ends and names the line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any, Callable, Iterator, Mapping

from . import barrier, worker_context
from .round_assignment import Place
from .runtime_errors import SetupCollective

ARRIVAL: Mapping[str, Any] = {"round": 0, "step": 0, "committed": 0, "samples": 0.0, "why": "newcomer"}
"""Report at the barrier of a process without state."""

LIBRARIES = ("tensorflow", "keras", "horovod")
"""Packages through which a script may read rank and size."""

_one = threading.Lock()
_told: Place | None = None
_alone = False
_asked: dict[str, tuple[int, str]] = {}
"""Field → the value that the script read, and the line of the first read."""

FAMILIES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "join", "barrier")
"""Parts of the names of the native functions that communicate with other processes."""

REPLACED = (
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_variables",
    "broadcast_global_variables",
)
"""Functions of Horovod that the synchronization of the state replaces."""

KINDS: Mapping[str, str] = {"rank": "rank", "size": "size", "cross_rank": "rank", "cross_size": "size"}
"""Method of Horovod that a script may call → the field of a place that answers it."""

DEALS = "horovod.torch.elastic.sampler"
"""Horovod's only module that divides data. It is updated in each round, so its reads do not count as the script's."""

PACKAGES = ("horovod.", f"{__package__}.")
"""Prefixes of the names of modules that do not belong to the script."""

answered_alone = False
"""A collective of the setup ran without the other members."""

_operations: Any = None
"""The module of Horovod that can shut it down and initialize it."""


def told() -> Place:
    """The place that the master expects for this process's first round. Waits until it is known; it does not change."""
    global _told  # noqa: PLW0603 - one process, one first round
    with _one:
        if _told is None:
            _told = worker_context.shim().place()
        return _told


def answer(kind: str, frame: Any, *, noted: bool) -> int:
    """`kind` (`rank` or `size`) of the place that the script sees. noted: this frame is code of the script.

    In a round that is its place there, in a rehearsal that of the previous round, before the first the expected one.
    """
    if _alone:
        return {"rank": 0, "size": 1}[kind]
    mine = worker_context.current()
    known = mine.assignment if mine is not None and mine.assignment.round else told()
    value = int(getattr(known, kind))
    if noted and kind not in _asked and (worker_context.setting_up() or _traced()):
        _asked[kind] = (value, line_of(frame))
    return value


def _traced() -> bool:
    """Whether TensorFlow is building a graph, which keeps the answer."""
    tensorflow: Any = sys.modules.get("tensorflow")
    return tensorflow is not None and not tensorflow.executing_eagerly()


def others_heard() -> bool:
    """Whether the script was told a size greater than 1."""
    return _told is not None and _told.size > 1


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Context in which the script gets rank 0 and size 1."""
    global _alone  # noqa: PLW0603 - one script in a process
    _alone = True
    try:
        yield
    finally:
        _alone = False


def asked() -> tuple[int, int] | None:
    """Rank and size that the script read before its first round; None if it did not read them."""
    return (_told.rank, _told.size) if _told and _asked else None


def differs(rank: int, size: int) -> str:
    """File and line where the script read a value that differs in this place; empty if there is none."""
    now = {"rank": rank, "size": size}
    return next((where for kind, (value, where) in _asked.items() if now[kind] != value), "")


def again() -> bool:
    """Whether this is not the first process of its pod."""
    return os.environ.get("GANGWRIGHT_INCARNATION", "1") != "1"


def line_of(frame: Any) -> str:
    """File and line of the calling code, outside the libraries."""
    asks = frame
    while asks is not None and str(asks.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        asks = asks.f_back
    asks = asks or frame
    return f"{asks.f_code.co_filename}:{asks.f_lineno}"


CARD = barrier.Card("setup", "a script that sets up")
"""Card without a state: there is nothing to compare yet."""


class Watched:
    """Wraps Horovod's native library `inner`, to detect each collective."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or not _speaks(name):
            return found

        def call(*args: Any, **words: Any) -> Any:
            _collective(sys._getframe(1))  # noqa: SLF001 - as above
            return found(*args, **words)

        _untraced(call)
        setattr(self, name, call)
        return call


def patch_basics(module: Any) -> None:
    """Makes `HorovodBasics` answer scripts and Horovod's own modules differently. Bound methods are created later."""
    for name, kind in KINDS.items():
        setattr(module.HorovodBasics, name, _answering(getattr(module.HorovodBasics, name), kind))


def patch_process_sets(module: Any) -> None:
    """The same for the set of all processes, which scripts may use as well."""
    for name in ("rank", "size"):
        setattr(module.ProcessSet, name, _answering(getattr(module.ProcessSet, name), name))


def _answering(native: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
    def ask(self: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - the only way to the caller, and fast
        deals, asks = frame.f_globals.get("__name__") == DEALS, _of_script(frame)
        if not (deals or asks) and _speaks(frame.f_code.co_name):
            _collective(frame)
        truth = native(self)  # raises if Horovod is not initialized
        if truth is None or bool(getattr(self, "process_set_id", 0)) or not (deals or asks):
            return truth
        return answer(kind, frame, noted=asks)

    _untraced(ask)
    return ask


def _of_script(frame: Any) -> bool:
    """Whether this code belongs neither to Horovod nor to Gangwright."""
    return not f"{frame.f_globals.get('__name__')}.".startswith(PACKAGES)


def patch_operations(module: Any) -> None:
    """`horovod.tensorflow.mpi_ops` or `horovod.torch.mpi_ops`."""
    global _operations  # noqa: PLW0603 - a script has one framework
    _operations = module
    name = "MPI_LIB" if hasattr(module, "MPI_LIB") else "mpi_lib"
    setattr(module, name, Watched(getattr(module, name)))


def _speaks(name: str) -> bool:
    """Whether Horovod's function of this name communicates with other processes after it has read rank or size."""
    return name == "forward" or any(word in name for word in FAMILIES)


def _untraced(call: Any) -> None:
    """Prevents TensorFlow's AutoGraph from rewriting this function, which must run in Python."""
    call.autograph_info__ = {}


def _collective(frame: Any) -> None:
    """`frame`, of Horovod, is about to communicate with other processes. If the script sets up, they meet first.

    Raises SetupCollective if they cannot meet and the script would use the result.
    """
    global answered_alone  # noqa: PLW0603 - one script in a process
    mine, module = worker_context.current(), _operations
    if not worker_context.setting_up() or (mine is not None and mine.assignment.round):
        return
    if module is None or not module.is_initialized():
        return
    expected = told()
    if expected.size == 1:
        return
    if not expected.joins:
        _meet(worker_context.begin(), expected, module.shutdown, module.init)
        return
    answered_alone = True
    name, script = _called(frame)
    if name.rstrip("_") in REPLACED or not any(name.startswith(word) for word in FAMILIES):
        return
    raise SetupCollective(
        f"{line_of(script)} calls {name} while it sets up, but this worker joins a running training: no other worker "
        "can answer. Call it in the function that hvd.elastic.run decorates, or keep the value in the state"
    )


def _called(frame: Any) -> tuple[str, Any]:
    """The function of Horovod that was called from outside, and its caller's frame."""
    while frame.f_back is not None and not _of_script(frame.f_back):
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_back or frame


def _meet(
    mine: worker_context.Worker, expected: Place, shutdown: Callable[[], None], init: Callable[[], None]
) -> None:
    """Enters a round of the members that set up. If one is lost, all start over: the master ends this process."""
    body = {**ARRIVAL, "place": [expected.rank, expected.size], "again": again(), "setup": True}
    mine.progress.phase = "Ready"
    while True:
        assignment = mine.shim.ready(body)
        if assignment.removed:
            raise SystemExit(0)
        body.update(round=assignment.round, why="failure")
        mine.take(assignment)
        try:
            barrier.pass_through(mine.shim, assignment, CARD, lambda: mine.watch.target > body["round"])
            break
        except barrier.Overtaken:
            continue
    shutdown()
    init()
