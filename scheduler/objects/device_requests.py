"""The requests of a device claim as columns and counts, and what of a claim the planner does not model.

Never here: which devices they have (`device_slices`), or which claim belongs to which pod (`device_claims`).
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.model.demand import Toleration
from scheduler.objects import device_api as api
from scheduler.objects.device_columns import MOST, DeviceColumn, DeviceSet

FIELD: Final = "spec.resourceClaims"
"""The field of a pod that every gap names."""


class Requests(NamedTuple):
    """What a claim requests.  equal: the devices that need one value of an attribute; None: there is no such constraint.
    gaps: why the planner does not model it; then there are no columns.
    """

    columns: tuple[tuple[DeviceColumn, int], ...] = ()
    equal: DeviceSet | None = None
    gaps: tuple[str, ...] = ()


def requests(spec: api.ResourceClaimSpec) -> Requests:
    """The requests of a claim or of a template."""
    gaps = tuple(dict.fromkeys(_gaps(spec.devices)))
    if gaps:
        return Requests(gaps=tuple(f"{FIELD}: {gap}" for gap in gaps))
    asked = {own.name: _column(own.exactly) for own in spec.devices.requests or () if own.exactly is not None}
    return Requests(tuple(asked.values()), _equal(spec.devices, asked))


def _equal(claim: api.DeviceClaim, asked: Mapping[str, tuple[DeviceColumn, int]]) -> DeviceSet | None:
    for limit in claim.constraints or ():
        counts: dict[DeviceColumn, int] = {}
        for name, (column, count) in asked.items():
            if not limit.requests or name in limit.requests:
                counts[column] = counts.get(column, 0) + count
        return DeviceSet(limit.match_attribute or "", tuple(counts.items()))
    return None


def expressions(selectors: list[api.Selector] | None) -> tuple[str, ...]:
    """The expressions of selectors. One without an expression is an invalid expression."""
    return tuple(own.cel.expression if own.cel is not None else "" for own in selectors or ())


def _column(asked: api.Exactly) -> tuple[DeviceColumn, int]:
    tolerations = {
        Toleration(own.key, own.operator == "Exists", own.value, own.effect)
        for own in asked.tolerations or ()
        if own.operator in {"", "Equal", "Exists"}
    }
    whole = asked.allocation_mode == "All"
    column = DeviceColumn(
        asked.device_class_name, expressions(asked.selectors), tuple(sorted(tolerations)), whole
    )
    return column, 1 if whole else min(max(asked.count, 1), MOST + 1)


def _gaps(claim: api.DeviceClaim) -> Iterator[str]:
    for own in claim.requests or ():
        asked = own.exactly
        if asked is None:
            yield "a request with firstAvailable" if own.first_available else "a request of an unknown kind"
            continue
        if asked.admin_access is not None:
            yield "a request with adminAccess"
        if asked.capacity is not None:
            yield "a request with capacity"
        if asked.derived_attributes:
            yield "a request with derivedAttributes"
        if asked.allocation_mode not in {"", "ExactCount", "All"}:
            yield "a request with an unknown allocationMode"
    if any(not limit.match_attribute for limit in claim.constraints or ()):
        yield "a constraint other than matchAttribute"
    if len(claim.constraints or ()) > 1:
        yield "several constraints"
    modes = {own.exactly.allocation_mode for own in claim.requests or () if own.exactly is not None}
    if claim.constraints and "All" in modes:
        yield "a constraint beside allocationMode All"
