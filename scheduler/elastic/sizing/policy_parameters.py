"""The parameters of every policy: unit, meaning, and the reason for each default.

Lives here: one frozen value a policy, and `decode`, which makes it of what a person wrote under `spec.sizing`.
Never here: what a policy does with them.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from scheduler.errors import SettingsError

Seconds: TypeAlias = Annotated[
    float, Meta(ge=0, le=31_536_000, description="a number of seconds, 0 … one year")
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=10_000, description="a whole number, 1 … 10000")]
Money: TypeAlias = Annotated[float, Meta(ge=0, le=1e9, description="a number, 0 … 1e9")]


class Common(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What every policy knows."""

    hold: Seconds = 10.0
    """Seconds after a resize in which there is no other one. A worker needs some seconds to start, so a size that
    changed more often would never be measured; a resize itself takes a fraction of a second."""
    horizon: Seconds = 600.0
    """Seconds that a new size is expected to last. Growth must win back, within it or within what the job has left,
    what the resize costs. Clusters of tens of nodes see a job come or go every few minutes. Of no effect with
    `schedule`: its sizes a person stated."""


class Offer(Common, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="offer"):
    """`offer`: whatever is free."""


class Search(Common, frozen=True, kw_only=True, rename="camel"):
    """What the policies know that look for the best size by trying."""

    step: Count = 1
    """Sizes tried are `min` and multiples of this above it. A node's number of devices keeps to whole nodes."""
    stride: Annotated[float, Meta(ge=1, le=16, description="a factor, 1 … 16")] = 2.0
    """How far one trial goes: the size times this, at least one step. 2 finds any size in a number of trials that grows
    with its logarithm; 1 goes step by step, as MLSys'20 did."""
    samples: Count = 3
    """Measurements of a size before it counts as worse than another; the first after a resize is not among them. Three
    give a spread. One will do for the first size of all, and for one that is clearly better than those before it: it is
    taken while the job is on its way to the next."""
    confidence: Annotated[float, Meta(ge=0, le=5, description="a number of standard errors, 0 … 5")] = 1.64
    """Standard errors by which a comparison must be clear: 1.64 is wrong once in twenty on either side. While it is
    not, the job stays where it is, and measures on."""
    tolerance: Annotated[float, Meta(ge=0, le=1, description="a fraction, 0 … 1")] = 0.5
    """The search ends when the sizes around the best one are nearer than this fraction of the smaller of them. Near its
    best, throughput is flat: a fourth more or fewer workers changes the outcome by a few per cent."""
    forget: Seconds = 7200.0
    """Seconds after which a size that was left counts as unknown, and may be tried again. Co-tenants and data change; a
    search costs some tens of seconds at sizes that are not the best."""
    hold: Seconds = 2.0
    """As for every policy; shorter, because a size must be measured before it is left anyway."""


class Efficiency(Search, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="efficiency"):
    """`efficiency`: grow as long as additional workers are worth it (MLSys'20)."""

    threshold: Annotated[float, Meta(gt=0, le=1, description="a fraction above 0, at most 1")] = 0.1
    """Throughput scaling efficiency that an additional worker must have, relative to what the present ones give on
    average: 1 is perfect scaling. 0.1 is the default of the authors' code."""


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """A job that ends by then is worth this much."""

    until: Seconds
    """Seconds since the job's first step."""
    value: Money


class Utility(Search, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="utility"):
    """`utility`: grow as long as the earlier end is worth more than the workers cost (MLSys'20)."""

    value: Money = 100.0
    """Linear utility: what the job is worth if it ended at once, in units of money."""
    deadline: Annotated[float, Meta(gt=0, le=31_536_000, description="seconds above 0, at most one year")] = (
        10_800.0
    )
    """Linear utility: seconds since the first step at which the job is worth nothing any more; later it costs. Three
    hours, as in the runs of MLSys'20."""
    points: Annotated[
        tuple[Point, ...],
        Meta(max_length=64, description="a list of at most 64 points, each with until and value"),
    ] = ()
    """Step utility: values joined by lines, of falling value and rising time; instead of `value` and `deadline`."""
    price: Money = 1.0
    """What one worker costs an hour, in units of money. MLSys'20 sweeps 0.01 to 10."""


class Schedule(Common, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="schedule"):
    """`schedule`: a size for each phase of the training, stated ahead by epoch."""

    lead: Seconds = 30.0
    """Seconds before an epoch begins at which its newcomers are started, so that they are warm when it does; what the
    last newcomer took is used instead, once one was seen. An image that is there, imports and a warm-up step take
    less."""


Parameters: TypeAlias = Offer | Efficiency | Utility | Schedule

BY_NAME: Final[Mapping[str, type[Parameters]]] = {
    "offer": Offer,
    "efficiency": Efficiency,
    "utility": Utility,
    "schedule": Schedule,
}
"""A policy's name → its parameters."""

NAMES: Final[Mapping[type[Parameters], str]] = {kind: name for name, kind in BY_NAME.items()}


FIELD: Final = "spec.sizing"


def decode(policy: str, parameters: Mapping[str, Any]) -> Parameters:
    """The parameters of the policy of that name, as written in an ElasticJob. Raises SettingsError with the path of
    the field.
    """
    kind = BY_NAME.get(policy)
    if kind is None:
        raise SettingsError(f"{FIELD}.policy", policy, f"one of {', '.join(BY_NAME)}")
    known = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    for name, value in parameters.items():
        path = f"{FIELD}.parameters.{name}"
        if name not in known:
            raise SettingsError(
                path, value, f"no parameter of {policy}; those are {', '.join(sorted(known))}"
            )
        _checked(path, value, known[name].type)
    made = msgspec.convert(dict(parameters), kind)
    if isinstance(made, Utility) and made.points:
        _falling(made.points, parameters)
    return made


def _checked(path: str, value: Any, kind: Any) -> None:
    """Raises SettingsError unless the value is of that kind."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(value, list) and str(error).count("[") == 1:
            _checked_points(path, value)
        raise SettingsError(path, value, _described(kind) or str(error)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(path, value, _described(kind) or "a finite number")


def _checked_points(path: str, points: list[Any]) -> None:
    """Raises SettingsError for the first point that is none."""
    fields = {one.name: one.type for one in msgspec.structs.fields(Point)}
    for number, point in enumerate(points):
        if not isinstance(point, dict) or set(point) != set(fields):
            raise SettingsError(f"{path}[{number}]", point, "until and value, both numbers")
        for name, value in point.items():
            _checked(f"{path}[{number}].{name}", value, fields[name])


def _described(kind: Any) -> str:
    """What the kind says it takes."""
    metas = [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, Meta)]
    return next((one.description for one in metas if one.description), "")


def _falling(points: tuple[Point, ...], written: Mapping[str, Any]) -> None:
    """What no field of `utility` alone can be wrong in."""
    both = [name for name in ("value", "deadline") if name in written]
    if both:
        raise SettingsError(f"{FIELD}.parameters.{both[0]}", written[both[0]], "leave it out beside points")
    for number, (former, latter) in enumerate(itertools.pairwise(points), start=1):
        point, before = f"{FIELD}.parameters.points[{number}]", "than the point before it,"
        if latter.until <= former.until:
            raise SettingsError(f"{point}.until", latter.until, f"later {before} {former.until:g}")
        if latter.value > former.value:
            raise SettingsError(f"{point}.value", latter.value, f"no more {before} {former.value:g}")
