"""From the API object to an `ElasticJob`, or to everything that is wrong with it.

Lives here: the keys of the object, and what each field takes. Never here: a default (`spec`), a decision.
Why every problem at once: a person who mends a manifest should have to do it once. Why nothing raises: a job that
cannot be read is shown with its problems, and must not stop the others.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from scheduler.elastic.job.field_reader import (
    Form,
    count,
    duration,
    flag,
    name,
    number,
    path,
    record,
    rows,
    texts,
    word,
)
from scheduler.elastic.job.spec import (
    Batch,
    BatchMode,
    Checkpoint,
    EarlyExit,
    LearningRate,
    Problem,
    Spec,
    Stage,
    Strategy,
)
from scheduler.elastic.job.status import Status
from scheduler.elastic.job.status_json import UnreadableStatus, decode_status
from scheduler.elastic.sizing import policy_parameters
from scheduler.errors import SettingsError, shortened

MOST_WORKERS: Final = 10_000
"""The largest number that any field takes for workers."""
MOST_MEMBERS: Final = 170
"""Workers of one job. Horovod connects all members of a round twice, at 136 bytes for each address that a member lays
down: 272 × 170 × 169 bytes, with their keys just below the 8 MiB that `rendezvous.roundLimit` is at least.
"""
MOST_RESTARTS: Final = 1_000_000
MOST_STAGES: Final = 1_000
MOST_SAMPLES: Final = 2**31 - 1
MINUTE: Final = 60.0
YEAR: Final = 365 * 86400.0


class ElasticJob(Struct, frozen=True, kw_only=True):
    """An ElasticJob as the master knows it."""

    namespace: str
    name: str
    uid: str
    generation: int = 0
    spec: Spec | None = None
    """None: it cannot be read."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with it; empty if and only if there is a spec."""
    status: Status | None = None
    """None: it has none yet, or one that cannot be read."""
    unreadable: str = ""
    """Why its status cannot be read; empty when it can, and when there is none."""
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def decode(object_: Mapping[str, Any]) -> ElasticJob:
    """The job of an API object (`kubectl get -o json`)."""
    metadata = object_.get("metadata") or {}
    spec, problems = decode_spec(object_.get("spec"))
    status, unreadable = _status(object_.get("status"))
    return ElasticJob(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        generation=int(metadata.get("generation") or 0),
        spec=spec,
        problems=problems,
        status=status,
        unreadable=unreadable,
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _status(raw: Any) -> tuple[Status | None, str]:
    try:
        return decode_status(raw), ""
    except UnreadableStatus as error:
        return None, str(error)


def decode_spec(raw: Any) -> tuple[Spec | None, tuple[Problem, ...]]:
    """The spec, or None and all that is wrong with it."""
    form = Form("spec", raw)
    spec = Spec(
        min_workers=form.take("minWorkers", count(1, MOST_WORKERS), 1, needed=True),
        max_workers=form.take("maxWorkers", count(1, MOST_WORKERS), 1, needed=True),
        workers=form.take("workers", count(0, MOST_WORKERS), None),
        template=form.take("template", record, {}, needed=True),
        surplus_priority_class_name=form.take(
            "surplusPriorityClassName", name, Spec().surplus_priority_class_name
        ),
        strategy=form.take("strategy", word(Strategy), None),
        level=form.take("level", name, None),
        level_required=form.take("levelRequired", flag, default=False),
        schedule=tuple(_stage(entry) for entry in form.forms("schedule", rows(MOST_STAGES))),
        batch=_batch(form.form("batch")),
        suspend=form.take("suspend", flag, default=False),
        max_restarts=form.take("maxRestarts", count(0, MOST_RESTARTS), Spec().max_restarts),
        progress_deadline=form.take("progressDeadline", duration(MINUTE, YEAR), Spec().progress_deadline),
        early_exit=form.take("earlyExit", word(EarlyExit), Spec().early_exit),
        checkpoint=_checkpoint(form.form("checkpoint")),
        policy=policy_of(form.raw),
        parameters=_parameters(form),
    )
    form.close()
    if not form.problems:
        _together(form, spec)
    return (None, tuple(form.problems)) if form.problems else (spec, ())


def lowered(written: Any) -> Any:
    """A spec that an earlier version accepted: it took any `maxWorkers`, and went by what a round holds."""
    most = written.get("maxWorkers") if isinstance(written, dict) else None
    return {**written, "maxWorkers": min(most, MOST_MEMBERS)} if isinstance(most, int) else written


def policy_of(spec: Mapping[str, Any]) -> str:
    """The name of the policy: `schedule` when there are sizes in the schedule and none is named."""
    raw = spec.get("sizing")
    if isinstance(raw, dict) and isinstance(raw.get("policy"), str):
        return str(raw["policy"])
    entries = spec.get("schedule")
    sized = isinstance(entries, list) and any(isinstance(one, dict) and "workers" in one for one in entries)
    return "schedule" if sized else Spec().policy


def _parameters(form: Form) -> policy_parameters.Parameters:
    sizing = form.form("sizing")
    written = sizing.take("policy", word(policy_parameters.BY_NAME), None)
    values = sizing.take("parameters", record, {})
    sizing.close()
    if written is None and "policy" in sizing.raw:
        return Spec().parameters
    try:
        return policy_parameters.decode(policy_of(form.raw), values, "spec.sizing")
    except SettingsError as error:
        form.problems.append(Problem(error.field, shortened(repr(error.value)), error.remedy))
        return Spec().parameters


def _stage(form: Form) -> Stage:
    stage = Stage(
        epoch=form.take("epoch", number(0, 1e9), 0.0, needed=True),
        workers=form.take("workers", count(1, MOST_WORKERS), None),
        batch=form.take("batch", count(1, MOST_SAMPLES), None),
        env=form.take("env", texts, {}),
    )
    form.close()
    return stage


def _batch(form: Form) -> Batch:
    batch = Batch(
        mode=form.take("mode", word(BatchMode), Batch().mode),
        per_worker=form.take("perWorker", count(1, MOST_SAMPLES), None),
        limit=form.take("limit", count(1, MOST_SAMPLES), None),
        learning_rate=form.take("learningRate", word(LearningRate), Batch().learning_rate),
        ramp_steps=form.take("rampSteps", count(0, MOST_SAMPLES), 0),
    )
    form.close()
    return batch


def _checkpoint(form: Form) -> Checkpoint:
    checkpoint = Checkpoint(
        path=form.take("path", path, ""),
        every=form.take("every", duration(1.0, YEAR), Checkpoint().every),
    )
    form.close()
    return checkpoint


def _together(form: Form, spec: Spec) -> None:
    """What no field alone can be wrong in."""
    if spec.max_workers > MOST_MEMBERS:
        remedy = f"at most {MOST_MEMBERS}, the members that one round of the rendezvous holds; lower it"
        form.wrong("maxWorkers", spec.max_workers, remedy)
    if spec.max_workers < spec.min_workers:
        form.wrong("maxWorkers", spec.max_workers, f"at least minWorkers, which is {spec.min_workers}")
    containers = (spec.template.get("spec") or {}) if isinstance(spec.template.get("spec"), dict) else {}
    if not isinstance(containers.get("containers"), list) or not containers["containers"]:
        form.wrong(
            "template.spec.containers", containers.get("containers"), "a list of one container at least"
        )
    batch = spec.batch
    if batch.limit is not None and batch.per_worker is None:
        form.wrong("batch.perWorker", None, "needed beside batch.limit: the samples of one worker a step")
    if batch.mode is BatchMode.FIXED and batch.per_worker is None:
        form.wrong("batch.perWorker", None, "needed with batch.mode fixed: the samples of one worker a step")
    if batch.limit is not None and batch.limit < spec.max_workers and batch.mode is not BatchMode.PER_WORKER:
        form.wrong("batch.limit", batch.limit, f"at least maxWorkers, which is {spec.max_workers}")
    _stages(form, spec)


def _stages(form: Form, spec: Spec) -> None:
    former = -math.inf
    for place, stage in enumerate(spec.schedule):
        field = f"schedule[{place}]"
        if stage.epoch <= former:
            form.wrong(f"{field}.epoch", stage.epoch, f"later than the entry before it, {former:g}")
        former = stage.epoch
        if stage.workers is None:
            continue
        if not spec.min_workers <= stage.workers <= spec.max_workers:
            form.wrong(
                f"{field}.workers",
                stage.workers,
                f"from minWorkers to maxWorkers, {spec.min_workers} … {spec.max_workers}",
            )
        if spec.policy != "schedule":
            form.wrong(
                f"{field}.workers",
                stage.workers,
                f"leave it out, or set sizing.policy to schedule; it is {spec.policy}",
            )
