"""Checkpoints, as far as workers told of them: which one is the newest, and whether the one that was asked for stands.

Lives here: what is believed, and what a save that failed means. Never here: who saves (`round_plan`), or what comes next
(`round_transition`). A worker tells the step of its newest file by a value, with its beats or with its end. That its pod is
gone, or has Succeeded, says
nothing: an agent whose worker was released ends well whatever its process did.
"""

import math
from typing import Final

from scheduler.elastic.job.status import Checkpoint, Status
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


def restored(s: State, status: Status) -> None:
    """What stood, and why the state could not be saved."""
    saver, checkpoint = s.rounds.record.saver, status.checkpoint
    s.saving.checkpoint = checkpoint
    s.saving.saved = bool(saver and checkpoint and checkpoint.step >= s.rounds.record.step)
    failed = (one.message for one in status.conditions if one.type == FAILED and one.status)
    s.saving.error = next(failed, "")


def begun(s: State) -> None:
    """A round trains: what comes after it is to be saved once more."""
    s.saving.saved, s.saving.error = False, ""


def try_again(s: State) -> None:
    """A user who suspends the job once more wants it saved."""
    s.saving.error = ""


def heard(s: State, worker: Worker) -> None:
    """Believe what this worker says of its files."""
    step = _said(worker)
    if step is None or s.spec is None or not s.spec.checkpoint.path:
        return
    if s.saving.checkpoint is None or step > s.saving.checkpoint.step:
        s.saving.checkpoint = Checkpoint(s.spec.checkpoint.path, step)
    if worker.uid == s.rounds.record.saver and step >= worker.committed:
        s.saving.saved, s.saving.error = True, ""


def ended(s: State, worker: Worker, how: str) -> None:
    """The one that saves has ended, or is given up. Without its word nothing stands, and the next one of those that
    hold the state saves; unless it was the disk: then they keep it.
    """
    heard(s, worker)
    if worker.uid != s.rounds.record.saver or s.saving.saved:
        return
    left = [w for w in selectors.holders(s) if w is not worker]
    if worker.exit is not None and worker.exit.code == 0:
        s.saving.saved = not left  # nobody could do it again; a process that cannot save does not end well
        if s.saving.saved and s.spec is not None:
            s.saving.checkpoint = Checkpoint(s.spec.checkpoint.path, max(s.rounds.record.step, 0))
    elif not s.saving.error and (FAULT in how or not left):
        s.saving.error = f"{worker.name}: {how}"
        s.do(Tell("Warning", FAILED, f"the state was not saved: {s.saving.error}"))


def _said(worker: Worker) -> int | None:
    if worker.exit is not None and worker.exit.checkpoint_step is not None:
        return worker.exit.checkpoint_step
    value = worker.beat.values.get(VALUE) if worker.beat else None
    return int(value) if value is not None and math.isfinite(value) and 0 <= value < STEPS else None
