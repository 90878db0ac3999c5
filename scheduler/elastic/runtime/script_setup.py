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

import os
import sys
from typing import Any, Callable, Mapping

from . import barrier, expected_rank, horovod_environment, worker_context
from .round_assignment import Place
from .runtime_errors import SetupCollective

FAMILIES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "join", "barrier")
"""Words in the names of the native functions that speak to other processes."""

REPLACED = (
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_variables",
    "broadcast_global_variables",
)
"""Functions of Horovod's whose work the synchronization of the state does again."""

CARD = barrier.Card("setup", "a script that sets up")
"""Nothing has to fit: there is no state yet."""

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
        return expected_rank.answer(kind, frame, noted=asks)

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
    expected = expected_rank.told()
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
        f"{expected_rank.line_of(script)} calls {name} while it sets up, and this worker joins a training that goes on: no "
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
    told = [expected.rank, expected.size]
    body = {**expected_rank.ARRIVAL, "place": told, "again": expected_rank.again(), "setup": True}
    mine.progress.phase = "Ready"
    while True:
        assignment = mine.shim.ready(body)
        mine.watch.entered(assignment.round)
        if assignment.removed:
            raise SystemExit(0)
        body.update(round=assignment.round, why="failure")
        mine.assignment, mine.progress.round = assignment, assignment.round
        pods = mine.pods = horovod_environment.before(assignment.env, os.environ, mine.pods)
        horovod_environment.apply(
            horovod_environment.member(assignment.rank, assignment.size, os.environ, assignment.env, pods)
        )
        try:
            barrier.pass_through(mine.shim, assignment, CARD, lambda: mine.watch.target > body["round"])
            break
        except barrier.Overtaken:
            continue
    shutdown()
    init()
