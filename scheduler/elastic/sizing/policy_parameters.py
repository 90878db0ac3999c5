"""The parameters of every policy: unit, meaning, and the reason for each default.

Lives here: one frozen value for each policy, and `decode`, which creates it from `spec.sizing`. Never here: how a
policy uses them.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from scheduler.errors import SettingsError

Seconds: TypeAlias = Annotated[
    float, Meta(ge=0, le=31_536_000, description="must be seconds between 0 and 31536000 (one year)")
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=10_000, description="must be an integer between 1 and 10000")]
Money: TypeAlias = Annotated[float, Meta(ge=0, le=1e9, description="must be a number between 0 and 1e9")]


class Common(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Parameters of every policy."""

    hold: Seconds = 10.0
    """Seconds without another resize after a resize. Defaults to 10 because a worker needs some seconds to start, so a
    size that changed more often could not be measured; a resize itself takes a fraction of a second."""
    horizon: Seconds = 600.0
    """Seconds that a new size is expected to last. Growth must win back the cost of the resize within this time, or
    within the job's remaining time. Defaults to 600 because on clusters of tens of nodes a job comes or goes every few
    minutes. Not used by `schedule`, whose sizes are set by a user."""


class Offer(Common, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="offer"):
    """`offer`: all that is free."""


class Search(Common, frozen=True, kw_only=True, rename="camel"):
    """Parameters of the policies that search for the best size by trying."""

    step: Count = 1
    """Grid of the sizes tried: `min` plus multiples of this. A node's number of devices keeps to whole nodes."""
    stride: Annotated[float, Meta(ge=1, le=16, description="must be a factor between 1 and 16")] = 2.0
    """Factor from one trial to the next, at least one step. Defaults to 2 because the number of trials then grows with
    the logarithm of the size. 1 goes step by step, as in MLSys'20."""
    samples: Count = 3
    """Measurements of a size before it counts as worse than another, without the first one after a resize. Defaults to
    3 because that gives a spread. One is enough for the very first size, and for one that is clearly better than those
    before it: it is measured while the job is on its way to the next."""
    confidence: Annotated[float, Meta(ge=0, le=5, description="must be a number between 0 and 5")] = 1.64
    """Standard errors by which a comparison must be clear. Until it is, the job keeps its size and measures on.
    Defaults to 1.64, which is wrong once in twenty on either side."""
    tolerance: Annotated[float, Meta(ge=0, le=1, description="must be a fraction between 0 and 1")] = 0.5
    """Fraction of the smaller size. The search ends when the sizes around the best one are nearer than this. Defaults
    to 0.5 because throughput is flat near its best: a fourth more or fewer workers changes it by a few percent."""
    forget: Seconds = 7200.0
    """Seconds after which a size that was left counts as unknown, and may be tried again. Defaults to 7200 because
    co-tenants and data change, while a search costs some tens of seconds at other sizes."""
    hold: Seconds = 2.0
    """As for every policy; shorter, because a size must be measured before it is left anyway."""


class Efficiency(Search, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="efficiency"):
    """`efficiency`: grow as long as additional workers scale well enough (MLSys'20)."""

    threshold: Annotated[float, Meta(gt=0, le=1, description="must be above 0 and at most 1")] = 0.1
    """Minimum throughput scaling efficiency of an additional worker, relative to the average of the present ones: 1 is
    perfect scaling. Defaults to 0.1 as in the authors' code."""


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """Value of a job that ends by this time."""

    until: Seconds
    """Seconds since the job's first step."""
    value: Money


class Utility(Search, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="utility"):
    """`utility`: grow as long as the earlier end is worth more than the workers cost (MLSys'20)."""

    value: Money = 100.0
    """Linear utility: value of the job if it ended at once, in units of money."""
    deadline: Annotated[float, Meta(gt=0, le=31_536_000, description="must be above 0, at most one year")] = (
        10_800.0
    )
    """Linear utility: seconds since the first step at which the job's value is 0; later it is negative. Defaults to
    three hours, as in the runs of MLSys'20."""
    points: Annotated[
        tuple[Point, ...],
        Meta(max_length=64, description="must be a list of at most 64 points, each with until and value"),
    ] = ()
    """Step utility: values joined by lines, with falling value and rising time. Replaces `value` and `deadline`."""
    price: Money = 1.0
    """Cost of one worker per hour, in units of money. MLSys'20 sweeps 0.01 to 10."""


class Schedule(Common, frozen=True, kw_only=True, rename="camel", tag_field="policy", tag="schedule"):
    """`schedule`: a size for each phase of the training, stated by epoch."""

    lead: Seconds = 30.0
    """Seconds before an epoch at which its newcomers are started, so that they are warm in time. Once a newcomer was
    seen, its start time is used instead. Defaults to 30 because an image that is already pulled, imports and a warm-up
    step take less."""


Parameters: TypeAlias = Offer | Efficiency | Utility | Schedule

BY_NAME: Final[Mapping[str, type[Parameters]]] = {
    "offer": Offer,
    "efficiency": Efficiency,
    "utility": Utility,
    "schedule": Schedule,
}
"""Name of a policy → its parameters."""

NAMES: Final[Mapping[type[Parameters], str]] = {kind: name for name, kind in BY_NAME.items()}


FIELD: Final = "spec.sizing"


def decode(policy: str, parameters: Mapping[str, Any]) -> Parameters:
    """The parameters of this policy, as written in an ElasticJob. Raises SettingsError with the field's path."""
    kind = BY_NAME.get(policy)
    if kind is None:
        raise SettingsError(f"{FIELD}.policy", policy, f"must be one of {', '.join(BY_NAME)}")
    known = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    for name, value in parameters.items():
        path = f"{FIELD}.parameters.{name}"
        if name not in known:
            raise SettingsError(
                path, value, f"unknown parameter of {policy}; use one of {', '.join(sorted(known))}"
            )
        _checked(path, value, known[name].type)
    made = msgspec.convert(dict(parameters), kind)
    if isinstance(made, Utility) and made.points:
        _falling(made.points, parameters)
    return made


def _checked(path: str, value: Any, kind: Any) -> None:
    """Raises SettingsError unless the value is valid for that type."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(value, list) and str(error).count("[") == 1:
            _checked_points(path, value)
        raise SettingsError(path, value, _described(kind) or str(error)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(path, value, _described(kind) or "must be a finite number")


def _checked_points(path: str, points: list[Any]) -> None:
    """Raises SettingsError for the first invalid point."""
    fields = {one.name: one.type for one in msgspec.structs.fields(Point)}
    for number, point in enumerate(points):
        if not isinstance(point, dict) or set(point) != set(fields):
            raise SettingsError(f"{path}[{number}]", point, "must have until and value, both numbers")
        for name, value in point.items():
            _checked(f"{path}[{number}].{name}", value, fields[name])


def _described(kind: Any) -> str:
    """The type's description of valid values."""
    metas = [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, Meta)]
    return next((one.description for one in metas if one.description), "")


def _falling(points: tuple[Point, ...], written: Mapping[str, Any]) -> None:
    """Checks of `utility` that concern several fields. Raises SettingsError."""
    both = [name for name in ("value", "deadline") if name in written]
    if both:
        raise SettingsError(f"{FIELD}.parameters.{both[0]}", written[both[0]], "remove it if you set points")
    for number, (former, latter) in enumerate(itertools.pairwise(points), start=1):
        point, before = f"{FIELD}.parameters.points[{number}]", "than the point before it,"
        if latter.until <= former.until:
            raise SettingsError(f"{point}.until", latter.until, f"must be later {before} {former.until:g}")
        if latter.value > former.value:
            raise SettingsError(f"{point}.value", latter.value, f"must be no more {before} {former.value:g}")
