"""An elastic job as values: what the user requests (`Spec`) and what the master reports (`Status`).

Lives here: fields, bounds, defaults, and the conversion from and to the API object, which names every wrong field.
Never here: their consequences; see `scheduler.elastic.reconciler` and `scheduler.elastic.sizing`. No I/O, no clock.
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
