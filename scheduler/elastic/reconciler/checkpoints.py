"""Checkpoints, as far as workers told of them: which one is the newest, and whether the one that was asked for stands.

Lives here: what is believed, and what a save that failed means. Never here: who saves (`round_plan`), or what comes next
(`round_transition`). A worker tells the step of its newest file by a value, with its beats or with its end. That its pod is
gone, or has Succeeded, says
nothing: an agent whose worker was released ends well whatever its process did.
"""

import math
from typing import Final

from scheduler.elastic.job.status import Checkpoint
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

VALUE: Final = "checkpoint_step"
"""The name of the value."""
FAILED: Final = "SaveFailed"
"""The condition, and the event, that say that the state could not be saved."""
FAULT: Final = "CheckpointError"
"""What the end of a process is called that could not write: the disk is at fault, and others would fare no better."""
STEPS: Final = 2**53
"""Beyond it a value is no step."""


def heard(s: State, worker: Worker) -> None:
    """Believe what this worker says of its files."""
    step = _said(worker)
    if step is None or s.spec is None or not s.spec.checkpoint.path:
        return
    if s.checkpoint is None or step > s.checkpoint.step:
        s.checkpoint = Checkpoint(s.spec.checkpoint.path, step)
    if worker.uid == s.record.saver and step >= worker.committed:
        s.saved, s.save_error = True, ""


def ended(s: State, worker: Worker, how: str) -> None:
    """The one that saves has ended, or is given up. Without its word nothing stands, and the next one of those that
    hold the state saves; unless it was the disk: then they keep it.
    """
    heard(s, worker)
    if worker.uid != s.record.saver or s.saved:
        return
    left = [w for w in selectors.holders(s) if w is not worker]
    if worker.exit is not None and worker.exit.code == 0:
        s.saved = not left  # nobody could do it again; a process that cannot save does not end well
        if s.saved and s.spec is not None:
            s.checkpoint = Checkpoint(s.spec.checkpoint.path, max(s.record.step, 0))
    elif not s.save_error and (FAULT in how or not left):
        s.save_error = f"{worker.name}: {how}"
        s.do(Tell("Warning", FAILED, f"the state was not saved: {s.save_error}"))


def _said(worker: Worker) -> int | None:
    if worker.exit is not None and worker.exit.checkpoint_step is not None:
        return worker.exit.checkpoint_step
    value = worker.beat.values.get(VALUE) if worker.beat else None
    return int(value) if value is not None and math.isfinite(value) and 0 <= value < STEPS else None
