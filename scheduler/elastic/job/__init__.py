"""An elastic job as values: what a user wants of it (`Spec`), and what the master says of it (`Status`).

Lives here: fields, bounds, defaults, and the way from and to the API object, with the name of every field that is wrong.
Never here: what follows from them; that is `scheduler.elastic.reconciler`'s and `scheduler.elastic.sizing`'s. No I/O,
no clock.
"""

from scheduler.elastic.job.spec import (
    BatchMode,
    LearningRate,
    Problem,
    Spec,
    Stage,
    Strategy,
)
from scheduler.elastic.job.status import Condition, Phase, Round, Status
from scheduler.elastic.job.status_json import UnreadableStatus, decode_status, encode_status
from scheduler.elastic.job.validation import decode_spec

__all__ = [
    "BatchMode",
    "Condition",
    "LearningRate",
    "Phase",
    "Problem",
    "Round",
    "Spec",
    "Stage",
    "Status",
    "Strategy",
    "UnreadableStatus",
    "decode_spec",
    "decode_status",
    "encode_status",
]
