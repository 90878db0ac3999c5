"""Converts a written spec to a `Spec`, or to a list of its errors.

Lives here: the order of reading, checks across fields, and the number of workers that a round holds. Never here: the
fields and their own bounds (`spec`). The API server rejects most errors before the master sees an object;
`gangwright submit` checks a file before the API server does. Every wrong field is a separate problem, so that you fix a
manifest once. Nothing raises: a job that cannot be read is shown with its problems, and does not block other jobs.
"""

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta, Struct

from scheduler.elastic.job.spec import (
    Batch,
    BatchMode,
    Checkpoint,
    Object,
    Problem,
    Spec,
    Stage,
    one_of,
)
from scheduler.elastic.sizing import policy_parameters
from scheduler.errors import SettingsError

MOST_MEMBERS: Final = 170
"""Maximum workers of one job. Horovod connects all members of a round twice, with 136 bytes for each address that a
member publishes: 272 × 170 × 169 bytes, with their keys just below 8 MiB, the minimum of `rendezvous.roundLimit`.
"""


class Sizing(Struct):
    """`spec.sizing` as written; a `Spec` has the parameters of the policy instead."""

    policy: Annotated[str, one_of(policy_parameters.BY_NAME)] | None = None
    parameters: Object = {}


def _types(kind: type[Struct], *other: str) -> dict[str, Any]:
    """Field → type, without the fields in `other`."""
    fields = msgspec.structs.fields(kind)
    return {one.encode_name: one.type for one in fields if one.name not in other}


FIELDS: Final[Mapping[type, Mapping[str, Any]]] = {
    Spec: {**_types(Spec, "policy", "parameters"), "sizing": Sizing},
    **{kind: _types(kind) for kind in (Batch, Checkpoint, Stage, Sizing)},
}
"""Fields of each object: field → type."""

ROWS: Final = FIELDS[Spec]["schedule"]
NEEDED: Final = frozenset({"minWorkers", "maxWorkers", "template", "epoch"})
PER_WORKER: Final = "Set it to the samples per step of one worker"


def decode_spec(raw: Any) -> tuple[Spec | None, tuple[Problem, ...]]:
    """The spec, or None and its errors."""
    found: list[Problem] = []
    written = _object(Spec, raw, "spec", found)
    sizing = written.pop("sizing", {})
    policy = policy_of(raw) if isinstance(raw, dict) else Spec().policy
    try:
        written |= {
            "policy": policy,
            "parameters": policy_parameters.decode(policy, sizing.get("parameters") or {}),
        }
    except SettingsError as error:
        found.append(Problem.of(error.field, error.value, error.remedy))
    if found:
        return None, tuple(found)
    spec = msgspec.convert(written, Spec)
    found += [Problem.of(f"spec.{field}", value, remedy) for field, value, remedy in _conflicts(spec)]
    return (None, tuple(found)) if found else (spec, ())


def lowered(written: Any) -> Any:
    """A spec that an earlier version accepted, with its workers capped to `MOST_MEMBERS`: it took any number."""
    spec = _capped(written, "maxWorkers")
    phases = spec.get("schedule") if isinstance(spec, dict) else None
    capped = [_capped(phase, "workers") for phase in phases] if isinstance(phases, list) else None
    return spec if capped is None else {**spec, "schedule": capped}


def _capped(node: Any, field: str) -> Any:
    most = node.get(field) if isinstance(node, dict) else None
    return {**node, field: min(most, MOST_MEMBERS)} if isinstance(most, int) else node


def policy_of(spec: Mapping[str, Any]) -> str:
    """The name of the policy. Defaults to `schedule` if the schedule has sizes."""
    raw = spec.get("sizing")
    if isinstance(raw, dict) and isinstance(raw.get("policy"), str):
        return str(raw["policy"])
    entries = spec.get("schedule")
    sized = isinstance(entries, list) and any(isinstance(one, dict) and "workers" in one for one in entries)
    return "schedule" if sized else Spec().policy


def _object(kind: type, raw: Any, place: str, found: list[Problem]) -> dict[str, Any]:
    """The valid fields; a null counts as unset. Durations are in seconds."""
    if not isinstance(raw, dict | None):
        found.append(Problem.of(place, raw, "must be an object"))
        return {}
    raw, known, right = raw or {}, FIELDS[kind], {}
    for name, type_ in known.items():
        field, value = f"{place}.{name}", raw.get(name)
        if value is not None:
            right[name] = _value(type_, value, field, found)
        elif name in NEEDED:
            found.append(Problem.of(field, None, f"is required and {_meta(type_).description}"))
    for name in filter(lambda one: one not in known, raw):
        near = difflib.get_close_matches(str(name), known, n=1)
        remedy = f"unsupported field. {f'Did you mean {near[0]}?' if near else 'Remove it'}"
        found.append(Problem.of(f"{place}.{name}", raw[name], remedy))
    return right


def _value(kind: Any, written: Any, place: str, found: list[Problem]) -> Any:
    if kind in FIELDS:
        return _object(kind, written, place, found)
    meta = _meta(kind)
    try:
        if kind == ROWS:
            rows = msgspec.convert(written, Annotated[list[Any], meta])
            return [_object(Stage, one, f"{place}[{number}]", found) for number, one in enumerate(rows)]
        read = (meta.extra or {}).get("read")
        return msgspec.convert(read(written) if read else written, kind)
    except msgspec.ValidationError:
        found.append(Problem.of(place, written, meta.description or ""))
        return None


def _meta(kind: Any) -> Meta:
    """The metadata of a type; for `X | None`, those of X."""
    (meta,) = (one for part in (kind, *get_args(kind)) for one in getattr(part, "__metadata__", ()))
    found: Meta = meta
    return found


def _conflicts(spec: Spec) -> Iterator[tuple[str, Any, str]]:
    """Field, value and remedy of every conflict between fields."""
    if spec.max_workers > MOST_MEMBERS:
        remedy = f"must be at most {MOST_MEMBERS}, because one round of the rendezvous holds no more members"
        yield "maxWorkers", spec.max_workers, remedy
    if spec.max_workers < spec.min_workers:
        yield "maxWorkers", spec.max_workers, f"must be at least minWorkers ({spec.min_workers})"
    pod = spec.template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not isinstance(containers, list) or not containers:
        yield "template.spec.containers", containers, "must be a list of at least one container"
    batch, capped = spec.batch, spec.batch.mode is not BatchMode.PER_WORKER
    if batch.per_worker is None and batch.limit is not None:
        yield "batch.perWorker", None, f"is required with batch.limit. {PER_WORKER}"
    if batch.per_worker is None and batch.mode is BatchMode.FIXED:
        yield "batch.perWorker", None, f"is required with batch.mode fixed. {PER_WORKER}"
    if batch.limit is not None and batch.limit < spec.max_workers and capped:
        yield "batch.limit", batch.limit, f"must be at least maxWorkers ({spec.max_workers})"
    former = -math.inf
    for number, stage in enumerate(spec.schedule):
        field = f"schedule[{number}]"
        if stage.epoch <= former:
            yield f"{field}.epoch", stage.epoch, f"must be greater than the previous epoch, {former:g}"
        former = stage.epoch
        if stage.workers is None:
            continue
        if not spec.min_workers <= stage.workers <= spec.max_workers:
            bounds = f"minWorkers ({spec.min_workers}) to maxWorkers ({spec.max_workers})"
            yield f"{field}.workers", stage.workers, f"must be from {bounds}"
        if spec.policy != "schedule":
            remedy = f"requires sizing.policy schedule, not {spec.policy}. Remove it or change the policy"
            yield f"{field}.workers", stage.workers, remedy
