"""Checkpoints as reported by workers: which one is the newest, and whether the requested one was saved.

Lives here: the reported checkpoints, and the meaning of a failed save. Never here: which worker saves (`round_plan`),
or what comes next (`round_transition`). A worker reports the step of its newest file as a value, in its beats or at its
exit. A pod that was deleted or has Succeeded proves nothing: the agent of a released worker exits with 0 whatever its
process did.
"""

import math
from typing import Final

from scheduler.elastic.job.status import Checkpoint, Status
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

VALUE: Final = "checkpoint_step"
"""Name of the reported value."""
FAILED: Final = "SaveFailed"
"""Condition type and event reason for a failed save."""
FAULT: Final = "CheckpointError"
"""Marks the exit of a process that failed to write. The disk is at fault, so other workers would fail too."""
STEPS: Final = 2**53
"""Upper bound of a valid step; larger values are ignored."""


def restored(s: State, status: Status) -> None:
    """Restore the newest checkpoint, and why the last save failed."""
    saver, checkpoint = s.rounds.record.saver, status.checkpoint
    s.saving.checkpoint = checkpoint
    s.saving.saved = bool(saver and checkpoint and checkpoint.step >= s.rounds.record.step)
    failed = (one.message for one in status.conditions if one.type == FAILED and one.status)
    s.saving.error = next(failed, "")


def begun(s: State) -> None:
    """A round trains, so its state has to be saved again."""
    s.saving.saved, s.saving.error = False, ""


def try_again(s: State) -> None:
    """Clear the error, so that suspending the job again retries the save."""
    s.saving.error = ""


def heard(s: State, worker: Worker) -> None:
    """Accept what this worker reports about its files."""
    step = _said(worker)
    if step is None or s.spec is None or not s.spec.checkpoint.path:
        return
    if s.saving.checkpoint is None or step > s.saving.checkpoint.step:
        s.saving.checkpoint = Checkpoint(s.spec.checkpoint.path, step)
    if worker.uid == s.rounds.record.saver and step >= worker.committed:
        s.saving.saved, s.saving.error = True, ""


def ended(s: State, worker: Worker, how: str) -> None:
    """The saver has ended or is declared lost. Without its report nothing is saved, and the next worker that holds the
    state saves. After a disk error the workers keep the state in memory instead.
    """
    heard(s, worker)
    if worker.uid != s.rounds.record.saver or s.saving.saved:
        return
    left = [w for w in selectors.holders(s) if w is not worker]
    if worker.exit is not None and worker.exit.code == 0:
        s.saving.saved = not left  # no worker could retry; a process that fails to save does not exit with 0
        if s.saving.saved and s.spec is not None:
            s.saving.checkpoint = Checkpoint(s.spec.checkpoint.path, max(s.rounds.record.step, 0))
    elif not s.saving.error and (FAULT in how or not left):
        s.saving.error = f"{worker.name}: {how}"
        s.do(Tell("Warning", FAILED, f"Checkpoint failed: {s.saving.error}"))


def _said(worker: Worker) -> int | None:
    if worker.exit is not None and worker.exit.checkpoint_step is not None:
        return worker.exit.checkpoint_step
    value = worker.beat.values.get(VALUE) if worker.beat else None
    return int(value) if value is not None and math.isfinite(value) and 0 <= value < STEPS else None
