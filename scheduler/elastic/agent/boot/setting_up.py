"""Collectives that a script calls while it sets up, before the function that `hvd.elastic.run` decorates.

Where a gang begins, all its members set up at the same time: at the first such collective they meet in a round of their
own, and Horovod carries out this one and those after it. A newcomer sets up while the others train, and no member is
there to answer. What reduces gradients, or makes parameters and optimizers alike, goes on alone there: the
synchronization of the state replaces it. A script cannot go by any other answer, so the process ends and names the line.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from . import doorstep, environment, place, worker
from .assignment import Place
from .errors import SetupCollective

FAMILIES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "join", "barrier")
"""Words in the names of the native functions that speak to other processes."""

REPLACED = (
    "broadcast_parameters",
    "broadcast_optimizer_state",
    "broadcast_variables",
    "broadcast_global_variables",
)
"""Functions of Horovod's whose work the synchronization of the state does again."""

CARD = doorstep.Card("setup", "a script that sets up")
"""Nothing has to fit: there is no state yet."""


alone = False
"""A collective of the set-up went on without the other members."""


class Watched:
    """Horovod's native library `inner`; tells of each collective that is asked for. `module` can shut down and init."""

    def __init__(self, inner: Any, module: Any) -> None:
        self._inner, self._module = inner, module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or not any(word in name for word in FAMILIES):
            return found
        module = self._module

        def call(*args: Any, **words: Any) -> Any:
            _collective(module, sys._getframe(1))  # noqa: SLF001 - as in `place`
            return found(*args, **words)

        setattr(self, name, call)
        return call


def patch_tensorflow(module: Any) -> None:
    """`horovod.tensorflow.mpi_ops`."""
    module.MPI_LIB = Watched(module.MPI_LIB, module)


def patch_torch(module: Any) -> None:
    """`horovod.torch.mpi_ops`."""
    module.mpi_lib = Watched(module.mpi_lib, module)


def _collective(module: Any, frame: Any) -> None:
    global alone  # noqa: PLW0603 - one script in a process
    mine = worker.current()
    if not worker.setting_up() or (mine is not None and mine.assignment.round) or not module.is_initialized():
        return
    expected = place.told()
    if expected.size == 1:
        return
    if not expected.joins:
        _meet(worker.begin(), expected, module.shutdown, module.init)
        return
    alone = True
    name, script = _called(frame)
    if name.rstrip("_") in REPLACED or not any(name.startswith(word) for word in FAMILIES):
        return
    raise SetupCollective(
        f"{place.line_of(script)} calls {name} while it sets up, and this worker joins a training that goes on: no "
        "other worker is there to answer. Call it in the function that hvd.elastic.run decorates, or keep the value in "
        "the state"
    )


def _called(frame: Any) -> Any:
    """The function of Horovod's that was called from outside, and who called it."""
    while frame.f_back is not None and not place.of_script(frame.f_back):
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_back or frame


def _meet(
    mine: worker.Worker, expected: Place, shutdown: Callable[[], None], init: Callable[[], None]
) -> None:
    """Into a round of those that set up. Where one is lost, all begin again: the master ends this process."""
    body = {**place.ARRIVAL, "place": [expected.rank, expected.size], "setup": True}
    mine.progress.phase = "Ready"
    while True:
        assignment = mine.shim.ready(body)
        mine.watch.entered(assignment.round)
        if assignment.removed:
            raise SystemExit(0)
        body.update(round=assignment.round, why="failure")
        mine.assignment, mine.progress.round = assignment, assignment.round
        pods = mine.pods = environment.before(assignment.env, os.environ, mine.pods)
        environment.apply(
            environment.member(assignment.rank, assignment.size, os.environ, assignment.env, pods)
        )
        try:
            doorstep.pass_through(mine.shim, assignment, CARD, lambda: mine.watch.target > body["round"])
            break
        except doorstep.Overtaken:
            continue
    shutdown()
    init()
