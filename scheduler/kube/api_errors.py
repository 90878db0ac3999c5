"""Errors of the API server: HTTP status and Status object → one error of the tree → one word.

Lives here: the table, and the few fields of a Status object that are read. Never here: how to handle an error.
"""

from collections.abc import Mapping

import msgspec

from scheduler import errors

BY_STATUS: Mapping[int, type[errors.KubeError]] = {
    400: errors.Invalid,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
    429: errors.TooManyRequests,
}

WORDS: Mapping[type[errors.KubeError], str] = {
    errors.NotFound: "not-found",
    errors.Gone: "not-found",
    errors.Conflict: "conflict",
    errors.Invalid: "invalid",
    errors.Forbidden: "forbidden",
    errors.Unauthorized: "forbidden",
}
"""The outcome of a call, as metrics and the engine name it."""

UNAVAILABLE = "unavailable"
"""Everything else: errors that may be gone a moment later."""

UNWELL = (errors.Unauthorized, errors.Forbidden, errors.TooManyRequests, errors.ServerError)
"""Errors that do not prove that the API server works. All other answers count as a sign of life."""


def word_of(error: errors.KubeError) -> str:
    """The error as one word of a fixed list."""
    return WORDS.get(type(error), UNAVAILABLE)


class Cause(msgspec.Struct):
    reason: str = ""


class Details(msgspec.Struct):
    causes: list[Cause] | None = None
    retryAfterSeconds: int = 0  # noqa: N815 - the API's spelling


class Status(msgspec.Struct):
    """The API's own form of an error (`kind: Status`)."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_STATUS = msgspec.json.Decoder(Status)


def read_status(body: bytes | msgspec.Raw) -> Status:
    """The Status object in `body`; an empty one if there is none (the page of a proxy is not shown)."""
    try:
        return _STATUS.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Status()


def refusal(call: str, code: int, status: Status, retry_after: str | None = None) -> errors.KubeError:
    """The error for HTTP status `code`, with the text of `status`.

    `retry_after` is the header's text. Whole seconds are read; a date is ignored (the API server never sends one).
    """
    kind = BY_STATUS.get(code, errors.ServerError if code >= 500 else errors.KubeError)
    details = status.details or Details()
    text = (retry_after or "").strip()
    seconds = float(text) if text.isdecimal() and len(text) < 10 else 0.0
    return kind(
        call,
        errors.abridged(status.message),
        status=code,
        reason=errors.shortened(status.reason, 64),
        causes=tuple(errors.shortened(cause.reason, 64) for cause in details.causes or ()),
        retry_after=seconds or float(details.retryAfterSeconds) or None,
    )
