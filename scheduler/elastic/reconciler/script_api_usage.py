"""What the training script takes over of the spec, and what it tells: as far as it was seen to call our small API.

Lives here: what its calls show, one event and one condition. Never here: the calls themselves (`runtime.script_api`). An
unmodified script calls nothing, so it leaves aside what the spec says of batch and rate. Before a step was made nothing is
claimed, nor of a job whose agents do not say.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status import Round, Status
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Tell
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


def restored(s: State, status: Status) -> None:
    s.uses = None if status.uses is None else frozenset(status.uses)


def heard(s: State, uses: Iterable[str]) -> None:
    """What its script was seen to ask for and to tell by now. What it leaves aside is told once, after the first step."""
    first, s.uses = s.uses is None, frozenset(uses)
    aside = {"gangwright.batch() or gangwright.shard()": BATCH, "gangwright.lr_scale()": RATE}
    missing = [calls for calls, word in aside.items() if word not in s.uses]
    if first and missing and s.rounds.record.per_worker is not None:
        said = f"the script does not call {' nor '.join(missing)}: it keeps its own, and spec.batch is not applied to that"
        s.do(Tell("Normal", "ScriptKeepsItsOwn", said))


def facts(s: State) -> dict[str, Fact]:
    """The condition that speaks of the script; none while nothing is known of it."""
    return {} if s.spec is None or s.uses is None or s.completion.over else _epoch(s, s.spec)


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
