"""What the training script takes over of the spec, and what it tells: as far as it was seen to call our small API.

Lives here: what its calls show, and the conditions that follow. Never here: the calls themselves (`runtime.script_api`). An
unmodified script calls nothing, so what the spec says of batch and rate is told to it and taken by nobody. Before a
step was made nothing is claimed, nor of a job whose agents do not say.
"""

from typing import Final, TypeAlias

from scheduler.elastic.job.spec import LearningRate, Spec
from scheduler.elastic.job.status import Round
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_state import State

BATCH: Final = "batch"
"""It asked for its batch: `gangwright.batch()` or `gangwright.shard()`."""
RATE: Final = "rate"
"""It asked for the factor of its learning rate: `gangwright.lr_scale()`."""
EPOCH: Final = "epoch"
"""It tells the epoch: `gangwright.epoch(done)`, or its position within what it gave to `gangwright.shard()`."""

Fact: TypeAlias = tuple[bool, str, str]
"""Of a condition: whether it holds, reason, message."""


def taken(s: State, record: Round) -> tuple[int | None, float | None]:
    """The global batch and the rate's factor of this round, each where the script takes it over."""
    uses = s.uses or frozenset()
    return record.global_batch if BATCH in uses else None, record.lr_scale if RATE in uses else None


def keeps_its_batch(s: State) -> bool:
    """Steps were made, and no batch was asked for with them."""
    return s.uses is not None and BATCH not in s.uses


def tells_no_epoch(s: State) -> bool:
    """Steps were made, and no epoch was told with them."""
    return s.uses is not None and EPOCH not in s.uses and selectors.epoch(s) <= 0


def facts(s: State) -> dict[str, Fact]:
    """The conditions that speak of the script; none while nothing is known of it."""
    if s.spec is None or s.uses is None:
        return {}
    if s.over:
        return dict.fromkeys(("BatchImposed", "RateImposed"), (False, s.over[0], ""))
    given = s.record.per_worker is not None
    return {
        "BatchImposed": _batch(s.uses, given=given),
        "RateImposed": _rate(s.uses, s.spec, given=given),
        **_epoch(s, s.spec),
    }


def _batch(uses: frozenset[str], *, given: bool) -> Fact:
    """`given`: there is a batch in the spec."""
    if BATCH not in uses:
        vain = ", and spec.batch.perWorker is not applied" if given else ""
        calls = "gangwright.batch() or gangwright.shard()"
        return False, "ScriptKeepsItsOwn", f"the script does not call {calls}: it keeps its own batch{vain}"
    if not given:
        why = "spec.batch.perWorker is not set: the script asks for its batch, and gets what it proposes"
        return False, "NotInSpec", f"{why}, per worker"
    return True, "FromSpec", ""


def _rate(uses: frozenset[str], spec: Spec, *, given: bool) -> Fact:
    if RATE not in uses:
        why = "the script does not call gangwright.lr_scale(): it keeps its own learning rate"
        return False, "ScriptKeepsItsOwn", why
    if spec.batch.learning_rate is LearningRate.NONE:
        return False, "NotInSpec", "spec.batch.learningRate is none: gangwright.lr_scale() is always 1"
    astray = given and BATCH not in uses
    return (
        True,
        "FromSpec",
        "its factor goes by spec.batch, and the script keeps its own batch" if astray else "",
    )


def _epoch(s: State, spec: Spec) -> dict[str, Fact]:
    """Nothing where the schedule asks for no epoch."""
    later = next((place for place, one in enumerate(spec.schedule) if one.epoch > 0), None)
    if later is None:
        return {}
    if not tells_no_epoch(s):
        return {"EpochTold": (True, "EpochsCome", "")}
    message = (
        f"schedule[{later}] begins with epoch {spec.schedule[later].epoch:g}, and the script tells of no epoch: "
        "call gangwright.epoch(done), or take the samples from gangwright.shard()"
    )
    return {"EpochTold": (False, "NoEpoch", message)}
