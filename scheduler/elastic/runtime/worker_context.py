"""The worker of this process: state shared by the loop, the reporter and the script's API."""

from __future__ import annotations

import os
from typing import Optional

from . import data_position, horovod_environment
from .agent_client import Shim
from .interrupt import Watch
from .round_assignment import ALONE, Assignment
from .training_progress import Progress, Reporter


class Worker:
    """Its agent, its place in the round, its counters."""

    def __init__(self, shim: Shim) -> None:
        self.shim = shim
        self.progress = Progress()
        self.watch = Watch(shim)
        self.reporter = Reporter(shim, self.progress)
        self.assignment = ALONE
        self.warming = False
        self.stands: Optional[tuple[int, int]] = None  # noqa: UP045
        """Rank and size of the last entered round, for which the data is divided."""
        self._over = False
        self._scaled, self._scale_before, self._changed_at = ALONE, 1.0, 0
        self._pods: horovod_environment.Changes = {}
        """The pod's own value of each variable that an assignment has set."""

    def start(self) -> None:
        """Starts to listen and to report."""
        self.watch.start()
        self.reporter.start()

    def again(self) -> None:
        """Another training begins in this process after a completed one: listens and reports again."""
        if self._over:
            self._over = False
            self.watch = Watch(self.shim, self.watch.target)
            self.reporter = Reporter(self.shim, self.progress)
            self.start()

    def stop(self) -> None:
        """The training is over: stops to listen and to report."""
        self._over = True
        self.watch.stop()
        self.reporter.stop()

    def lr_scale(self) -> float:
        """The learning rate's factor at this step."""
        passed = self.progress.step - self._changed_at
        return data_position.ramp(self._scale_before, self._scaled.lr_scale, passed, self._scaled.ramp_steps)

    def take(self, assignment: Assignment) -> None:
        """Takes this assignment, also into the environment, which Horovod reads at its next `init`."""
        self.assignment, self.progress.round = assignment, assignment.round
        self.watch.entered(assignment.round)
        self._pods = {**{key: os.environ.get(key) for key in assignment.env}, **self._pods}
        place = (assignment.rank, assignment.size)
        horovod_environment.apply(horovod_environment.member(*place, os.environ, assignment.env, self._pods))

    def entered(self, assignment: Assignment, scale: float) -> None:
        """Starts the ramp from `scale` to the round's factor at this step. An overtaken round has not changed it."""
        self._scaled, self._scale_before, self._changed_at = assignment, scale, self.progress.step


early: dict[str, float] = {}
"""The script's reports about its whole training before the worker existed."""

_worker: Optional[Worker] = None  # noqa: UP045


def current() -> Worker | None:
    """The worker, once training has begun in an agent's child."""
    return _worker


def setting_up() -> bool:
    """Whether the script has not reached a function yet that `hvd.elastic.run` decorates."""
    return _worker is None or _worker.progress.setup


def shim() -> Shim:
    """The agent of this process."""
    return Shim(os.environ["GANGWRIGHT_SHIM"], os.environ.get("GANGWRIGHT_SHIM_KEY", ""))


def begin() -> Worker:
    """The worker of this process, created at the first call, and started."""
    global _worker  # noqa: PLW0603 - a process is one worker
    if _worker is None:
        _worker = Worker(shim())
        _worker.progress.told.update(early)
        _worker.start()
    _worker.again()
    return _worker
