"""What a script hears of others while it sets up, before it comes to its training function.

Horovod's C++ is alone then, at rank 0 of 1. That stays the answer for Horovod's own modules, which branch on it around
their collectives. A script divides its data by rank and size, and chooses its writer by them, so it hears what the master
expects. One worker runs in a pod, so the local rank is 0 of 1, and the cross rank is the rank.

Collectives are real. Where a gang begins, all its members set up at the same time. At the first such collective they
meet in a round of their own, and Horovod carries out this one and those after it. A newcomer sets up while the others
train, and no member is there to answer. What reduces gradients, or makes parameters and optimizers alike, goes on alone
there: the synchronization of the state replaces it. A script cannot go by any other answer, so the process ends and names
the line.
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
"""What a process says at the barrier that has no state yet."""

LIBRARIES = ("tensorflow", "keras", "horovod")
"""Packages through which a script may ask."""

_one = threading.Lock()
_told: Place | None = None
_alone = False
_asked: dict[str, tuple[int, str]] = {}
"""Field → what the script was told of it and keeps, and where it asked first."""

FAMILIES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "join", "barrier")
"""Words in the names of the native functions that speak to other processes."""

REPLACED = (
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_variables",
    "broadcast_global_variables",
)
"""Functions of Horovod's whose work the synchronization of the state does again."""

KINDS: Mapping[str, str] = {"rank": "rank", "size": "size", "cross_rank": "rank", "cross_size": "size"}
"""Method of Horovod's that a script may ask → the field of a place that answers it."""

DEALS = "horovod.torch.elastic.sampler"
"""Horovod's one module that divides data. It is dealt again in each round, so it is no script that asked."""

PACKAGES = ("horovod.", f"{__package__}.")
"""How the names of modules begin that are no script's."""

answered_alone = False
"""A collective of the set-up went on without the other members."""

_operations: Any = None
"""The module of Horovod's that can shut it down and initialize it."""


def told() -> Place:
    """What the master expects of this process's first round. Waits until it is known, and stays as it was told."""
    global _told  # noqa: PLW0603 - one process, one first round
    with _one:
        if _told is None:
            _told = worker_context.shim().place()
        return _told


def answer(kind: str, frame: Any, *, noted: bool) -> int:
    """`kind` of the place that the script goes by, `rank` or `size`. noted: code of the script asks, in this frame.

    In a round that is its place there, in a rehearsal that of the round before, and before the first the expected one.
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
    """Whether a graph of TensorFlow's is being made, which keeps the answer."""
    tensorflow: Any = sys.modules.get("tensorflow")
    return tensorflow is not None and not tensorflow.executing_eagerly()


def others_heard() -> bool:
    """Whether the script heard that there are others."""
    return _told is not None and _told.size > 1


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Meanwhile the script hears that it is alone."""
    global _alone  # noqa: PLW0603 - one script in a process
    _alone = True
    try:
        yield
    finally:
        _alone = False


def asked() -> tuple[int, int] | None:
    """Rank and size that the script was told before its first round; None where it did not ask."""
    return (_told.rank, _told.size) if _told and _asked else None


def differs(rank: int, size: int) -> str:
    """File and line where the script asked for what is not true in this place; empty: all that it asked for is."""
    now = {"rank": rank, "size": size}
    return next((where for kind, (value, where) in _asked.items() if now[kind] != value), "")


def again() -> bool:
    """Whether this is not the first process of its pod."""
    return os.environ.get("GANGWRIGHT_INCARNATION", "1") != "1"


def line_of(frame: Any) -> str:
    """File and line of the code that asked, above the libraries that it asked through."""
    asks = frame
    while asks is not None and str(asks.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        asks = asks.f_back
    asks = asks or frame
    return f"{asks.f_code.co_filename}:{asks.f_lineno}"


CARD = barrier.Card("setup", "a script that sets up")
"""Nothing has to fit: there is no state yet."""


class Watched:
    """Horovod's native library `inner`; tells of each collective that is asked for."""

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
    """Has `HorovodBasics` answer scripts and Horovod's own modules apart. Bound methods are taken after that."""
    for name, kind in KINDS.items():
        setattr(module.HorovodBasics, name, _answering(getattr(module.HorovodBasics, name), kind))


def patch_process_sets(module: Any) -> None:
    """The same for the set of all processes, which scripts may ask as well."""
    for name in ("rank", "size"):
        setattr(module.ProcessSet, name, _answering(getattr(module.ProcessSet, name), name))


def _answering(native: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
    def ask(self: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to the caller, and this one is quick
        deals, asks = frame.f_globals.get("__name__") == DEALS, _of_script(frame)
        if not (deals or asks) and _speaks(frame.f_code.co_name):
            _collective(frame)
        truth = native(self)  # raises where Horovod is not initialized
        if truth is None or bool(getattr(self, "process_set_id", 0)) or not (deals or asks):
            return truth
        return answer(kind, frame, noted=asks)

    _untraced(ask)
    return ask


def _of_script(frame: Any) -> bool:
    """Whether this code is neither Horovod's nor ours."""
    return not f"{frame.f_globals.get('__name__')}.".startswith(PACKAGES)


def patch_operations(module: Any) -> None:
    """`horovod.tensorflow.mpi_ops` or `horovod.torch.mpi_ops`."""
    global _operations  # noqa: PLW0603 - a script has one framework
    _operations = module
    name = "MPI_LIB" if hasattr(module, "MPI_LIB") else "mpi_lib"
    setattr(module, name, Watched(getattr(module, name)))


def _speaks(name: str) -> bool:
    """Whether a function of this name of Horovod's speaks to other processes, after it has asked who they are."""
    return name == "forward" or any(word in name for word in FAMILIES)


def _untraced(call: Any) -> None:
    """Has TensorFlow's AutoGraph call it as it is, where it would rewrite what it calls: this runs in Python alone."""
    call.autograph_info__ = {}


def _collective(frame: Any) -> None:
    """`frame`, of Horovod's, is about to speak to other processes. While the script sets up they are made to be there.

    Raises SetupCollective where they cannot be, and the script would go by the answer.
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
        f"{line_of(script)} calls {name} while it sets up, and this worker joins a training that goes on: no "
        "other worker is there to answer. Call it in the function that hvd.elastic.run decorates, or keep the value in "
        "the state"
    )


def _called(frame: Any) -> tuple[str, Any]:
    """The function of Horovod's that was called from outside, and who called it."""
    while frame.f_back is not None and not _of_script(frame.f_back):
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_back or frame


def _meet(
    mine: worker_context.Worker, expected: Place, shutdown: Callable[[], None], init: Callable[[], None]
) -> None:
    """Into a round of those that set up. Where one is lost, all begin again: the master ends this process."""
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
