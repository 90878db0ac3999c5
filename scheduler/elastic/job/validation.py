"""From the spec as it is written to a `Spec`, or to what is wrong with it.

Lives here: the order of reading, what no field alone can be wrong in, and how many workers a round holds. Never here: the
fields and their own bounds (`spec`). The API server has refused most mistakes before the master sees an object; `gangwright submit` reads a file
before the API server does. Every wrong field is a problem of its own, so a manifest is corrected once. Nothing raises: a
job that cannot be read is shown with its problems, and must not stop the others.
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
"""Workers of one job. Horovod connects all members of a round twice, at 136 bytes for each address that a member lays
down: 272 × 170 × 169 bytes, with their keys just below the 8 MiB that `rendezvous.roundLimit` is at least.
"""


class Sizing(Struct):
    """`spec.sizing` as it is written; a `Spec` has the parameters of the policy instead."""

    policy: Annotated[str, one_of(policy_parameters.BY_NAME)] | None = None
    parameters: Object = {}


def _types(kind: type[Struct], *other: str) -> dict[str, Any]:
    """Field → type, but for the other fields."""
    fields = msgspec.structs.fields(kind)
    return {one.encode_name: one.type for one in fields if one.name not in other}


FIELDS: Final[Mapping[type, Mapping[str, Any]]] = {
    Spec: {**_types(Spec, "policy", "parameters"), "sizing": Sizing},
    **{kind: _types(kind) for kind in (Batch, Checkpoint, Stage, Sizing)},
}
"""What is written of each object: field → type."""

ROWS: Final = FIELDS[Spec]["schedule"]
NEEDED: Final = frozenset({"minWorkers", "maxWorkers", "template", "epoch"})


def decode_spec(raw: Any) -> tuple[Spec | None, tuple[Problem, ...]]:
    """The spec, or None and what is wrong with it."""
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
    """A spec that an earlier version accepted: it took any number of workers, and went by what a round holds."""
    spec = _capped(written, "maxWorkers")
    phases = spec.get("schedule") if isinstance(spec, dict) else None
    capped = [_capped(phase, "workers") for phase in phases] if isinstance(phases, list) else None
    return spec if capped is None else {**spec, "schedule": capped}


def _capped(node: Any, field: str) -> Any:
    most = node.get(field) if isinstance(node, dict) else None
    return {**node, field: min(most, MOST_MEMBERS)} if isinstance(most, int) else node


def policy_of(spec: Mapping[str, Any]) -> str:
    """The name of the policy: `schedule` when there are sizes in the schedule and none is named."""
    raw = spec.get("sizing")
    if isinstance(raw, dict) and isinstance(raw.get("policy"), str):
        return str(raw["policy"])
    entries = spec.get("schedule")
    sized = isinstance(entries, list) and any(isinstance(one, dict) and "workers" in one for one in entries)
    return "schedule" if sized else Spec().policy


def _object(kind: type, raw: Any, place: str, found: list[Problem]) -> dict[str, Any]:
    """The fields that are written and right; a null is no value. Durations are in seconds."""
    if not isinstance(raw, dict | None):
        found.append(Problem.of(place, raw, "an object"))
        return {}
    raw, known, right = raw or {}, FIELDS[kind], {}
    for name, type_ in known.items():
        field, value = f"{place}.{name}", raw.get(name)
        if value is not None:
            right[name] = _value(type_, value, field, found)
        elif name in NEEDED:
            found.append(Problem.of(field, None, f"is needed: {_meta(type_).description}"))
    for name in filter(lambda one: one not in known, raw):
        near = difflib.get_close_matches(str(name), known, n=1)
        remedy = f"no such field; {f'is {near[0]} meant?' if near else 'leave it out'}"
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
    """What a type says of its values; that of `X | None` is that of X."""
    (meta,) = (one for part in (kind, *get_args(kind)) for one in getattr(part, "__metadata__", ()))
    found: Meta = meta
    return found


def _conflicts(spec: Spec) -> Iterator[tuple[str, Any, str]]:
    """Field, value and remedy of what no field alone can be wrong in."""
    if spec.max_workers > MOST_MEMBERS:
        remedy = f"at most {MOST_MEMBERS}, the members that one round of the rendezvous holds; lower it"
        yield "maxWorkers", spec.max_workers, remedy
    if spec.max_workers < spec.min_workers:
        yield "maxWorkers", spec.max_workers, f"at least minWorkers, which is {spec.min_workers}"
    pod = spec.template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not isinstance(containers, list) or not containers:
        yield "template.spec.containers", containers, "a list of one container at least"
    batch, capped = spec.batch, spec.batch.mode is not BatchMode.PER_WORKER
    if batch.per_worker is None and batch.limit is not None:
        yield "batch.perWorker", None, "needed beside batch.limit: the samples of one worker a step"
    if batch.per_worker is None and batch.mode is BatchMode.FIXED:
        yield "batch.perWorker", None, "needed with batch.mode fixed: the samples of one worker a step"
    if batch.limit is not None and batch.limit < spec.max_workers and capped:
        yield "batch.limit", batch.limit, f"at least maxWorkers, which is {spec.max_workers}"
    former = -math.inf
    for number, stage in enumerate(spec.schedule):
        field = f"schedule[{number}]"
        if stage.epoch <= former:
            yield f"{field}.epoch", stage.epoch, f"later than the entry before it, {former:g}"
        former = stage.epoch
        if stage.workers is None:
            continue
        if not spec.min_workers <= stage.workers <= spec.max_workers:
            bounds = f"{spec.min_workers} … {spec.max_workers}"
            yield f"{field}.workers", stage.workers, f"from minWorkers to maxWorkers, {bounds}"
        if spec.policy != "schedule":
            remedy = f"leave it out, or set sizing.policy to schedule; it is {spec.policy}"
            yield f"{field}.workers", stage.workers, remedy
