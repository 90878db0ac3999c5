"""An elastic job as values: what a user wants of it (`Spec`), and what the master says of it (`Status`).

Lives here: fields, bounds, defaults, and the way from and to the API object, with the name of every field that is wrong.
Never here: what follows from them; that is `scheduler.elastic.reconciler`'s and `scheduler.elastic.sizing`'s. No I/O,
no clock.
"""

from scheduler.elastic.job.spec import (
    Batch,
    BatchMode,
    Checkpoint,
    LearningRate,
    Problem,
    Spec,
    Stage,
    Strategy,
)
from scheduler.elastic.job.status import Condition, Member, Phase, Round, Status, WorkerPhase
from scheduler.elastic.job.status_json import UnreadableStatus, decode_status, encode_status
from scheduler.elastic.job.validation import decode_spec

__all__ = [
    "Batch",
    "BatchMode",
    "Checkpoint",
    "Condition",
    "LearningRate",
    "Member",
    "Phase",
    "Problem",
    "Round",
    "Spec",
    "Stage",
    "Status",
    "Strategy",
    "UnreadableStatus",
    "WorkerPhase",
    "decode_spec",
    "decode_status",
    "encode_status",
]
