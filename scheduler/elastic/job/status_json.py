"""Conversion of a job's status between its values and the JSON of the API server.

Lives here: spellings (camelCase, times as RFC 3339, a condition's status as a word), and the form in which a status
keeps a spec or a part of one. Never here: what any of it means, or why it is kept (`controller.decode`,
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
"""Maps whose keys users choose: their names have no meaning here."""
_CONDITIONS: Final = "conditions"

_TEMPLATE: Final = "template"
"""The kept template, also stored as written."""

ACCEPTED: Final = "accepted"
"""Field of the spec that the job uses. It is stored as written, so no conversion applies inside."""

LONGEST_COPY: Final = 1 << 18
"""Maximum bytes of the copy of a spec in its object, of which etcd takes 1.5 MB. A long spec has thousands."""


class UnreadableStatus(ValueError):  # noqa: N818 - a state of the object, which another writer may end
    """The object has a status that cannot be read, from a newer master or a foreign writer. The text says why."""


def encode_status(status: Status, accepted: Any = None) -> dict[str, Any]:
    """The whole status as JSON, to replace the stored one. Fields without a value are omitted.

    accepted: the last accepted spec, as written.
    """
    encoded: dict[str, Any] = _outward(msgspec.to_builtins(status))
    return encoded if accepted is None else {**encoded, ACCEPTED: accepted}


def accepted_spec(raw: Any) -> Any:
    """The last accepted spec in a status, as written; None if there is none."""
    return raw.get(ACCEPTED) if isinstance(raw, dict) else None


def accepted_template(raw: Any) -> dict[str, Any] | None:
    """The template of that spec; None if there is none."""
    spec = accepted_spec(raw)
    found = spec.get("template") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else None


def decode_status(raw: Any) -> Status | None:
    """The status as values; None if there is none. Raises UnreadableStatus."""
    if raw is None or raw == {}:
        return None
    ours = {name: one for name, one in raw.items() if name != ACCEPTED} if isinstance(raw, dict) else raw
    try:
        return msgspec.convert(_inward(ours), Status)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableStatus(shortened(str(error))) from None


def readable(raw: Any) -> bool:
    """Whether the status can be read, or is empty."""
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
    """With milliseconds only if they are not 0."""
    return times.rfc3339(seconds, "milliseconds").replace(".000Z", "Z")


def copied(written: T) -> T | None:
    """A spec as a status keeps it, without nulls. None if it is too long or nested too deeply."""
    try:
        found = without_nulls(written)
        return found if len(msgspec.json.encode(found)) <= LONGEST_COPY else None
    except RecursionError:
        return None


def without_nulls(node: Any) -> Any:
    """The node without nulls: in a merge patch a null deletes a field, and a null field means the same as no field.
    Raises RecursionError.
    """
    if isinstance(node, dict):
        return {key: without_nulls(value) for key, value in node.items() if value is not None}
    if isinstance(node, list):
        return [without_nulls(value) for value in node if value is not None]
    return node
