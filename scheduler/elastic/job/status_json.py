"""A job's status between its values and the JSON of the API server.

Lives here: spellings: camelCase, times as RFC 3339, a condition's status as a word; and the form in which a spec, or a
part of one, is kept in a status. Never here: what any of it means, or why it is kept (`controller.decode`,
`reconciler.template_revision`).
"""

from typing import Any, Final, TypeVar

import msgspec

from scheduler.elastic.job.status import Status
from scheduler.errors import shortened
from scheduler.objects import times

T = TypeVar("T")

_TIMES: Final = frozenset({"lastTransitionTime", "at", "until", "startedAt"})
_NAMED_BY_PEOPLE: Final = frozenset({"values", "env"})
"""Maps whose keys are anybody's: there no name means anything to us."""
_CONDITIONS: Final = "conditions"

_TEMPLATE: Final = "template"
"""The template that is kept: as it was written, too."""

ACCEPTED: Final = "accepted"
"""Where the spec stands that the job goes by: as it was written, so no spelling of ours applies inside."""

LONGEST_COPY: Final = 1 << 18
"""Bytes of a spec that is kept a second time in its object, of which etcd takes 1.5 MB; a long one has thousands."""


class UnreadableStatus(ValueError):  # noqa: N818 - a state of the object, that somebody else may end
    """A status stands that we cannot read: a newer master's, or a stranger's. What it is that we cannot read."""


def encode_status(status: Status, accepted: Any = None) -> dict[str, Any]:
    """The whole status as JSON, to replace the one that stands. Fields without a value are left out.

    accepted: the last spec that was accepted, as it was written.
    """
    encoded: dict[str, Any] = _outward(msgspec.to_builtins(status))
    return encoded if accepted is None else {**encoded, ACCEPTED: accepted}


def accepted_spec(raw: Any) -> Any:
    """The spec in a status that was accepted last, as it was written; None without one."""
    return raw.get(ACCEPTED) if isinstance(raw, dict) else None


def accepted_template(raw: Any) -> dict[str, Any] | None:
    """The template of that spec; None where there is none."""
    spec = accepted_spec(raw)
    found = spec.get("template") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else None


def decode_status(raw: Any) -> Status | None:
    """The status as values; None when there is none. Raises UnreadableStatus."""
    if raw is None or raw == {}:
        return None
    ours = {name: one for name, one in raw.items() if name != ACCEPTED} if isinstance(raw, dict) else raw
    try:
        return msgspec.convert(_inward(ours), Status)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableStatus(shortened(str(error))) from None


def readable(raw: Any) -> bool:
    """Whether it is a status of ours, or none."""
    try:
        decode_status(raw)
    except UnreadableStatus:
        return False
    return True


def _outward(value: Any, field: str = "") -> Any:
    match value:
        case dict() if field == _TEMPLATE:
            return value
        case dict():
            shown = {
                name: _outward(inner, "" if field in _NAMED_BY_PEOPLE else name)
                for name, inner in value.items()
                if inner is not None
            }
            if field == _CONDITIONS:
                shown["status"] = "True" if shown["status"] else "False"
            return shown
        case list() | tuple():
            return [_outward(inner, field) for inner in value]
        case int() | float() if field in _TIMES:
            return _rfc3339(value)
        case _:
            return value


def _inward(value: Any, field: str = "") -> Any:
    match value:
        case dict() if field == _TEMPLATE:
            return value
        case dict():
            read = {
                name: _inward(inner, "" if field in _NAMED_BY_PEOPLE else name)
                for name, inner in value.items()
            }
            if field == _CONDITIONS:
                read["status"] = read.get("status") == "True"
            return read
        case list():
            return [_inward(inner, field) for inner in value]
        case str() if field in _TIMES:
            return times.seconds(value)
        case _:
            return value


def _rfc3339(seconds: float) -> str:
    """With thousandths only where there are some."""
    return times.rfc3339(seconds, "milliseconds").replace(".000Z", "Z")


def copied(written: T) -> T | None:
    """A spec as a status keeps it: without nulls. None where it is too long, or too deep."""
    try:
        found = without_nulls(written)
        return found if len(msgspec.json.encode(found)) <= LONGEST_COPY else None
    except RecursionError:
        return None


def without_nulls(node: Any) -> Any:
    """A merge patch says with null that a field goes; a field without a value says no more than none. Raises
    RecursionError.
    """
    if isinstance(node, dict):
        return {key: without_nulls(value) for key, value in node.items() if value is not None}
    if isinstance(node, list):
        return [without_nulls(value) for value in node if value is not None]
    return node
