"""What an HTTP edge asks the API server about who asks it: one review, and its answer.

Lives here: the call, and TokenReview as JSON. Never here: a memory of answers, or what follows from one; the edges
differ in both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from scheduler.errors import Garbled
from scheduler.serving.calls import Calls

TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"

LIMIT: Final = 5.0
"""Seconds for one review; the API server itself needs milliseconds, a webhook behind it more."""

T = TypeVar("T", bound=Struct)


class User(Struct):
    """Who somebody is."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class TokenStatus(Struct):
    """What is said of a token; an API server that knows no audiences names none."""

    authenticated: bool = False
    user: User = msgspec.field(default_factory=User)
    audiences: list[str] | None = None


class _TokenReview(Struct):
    status: TokenStatus = msgspec.field(default_factory=TokenStatus)


async def token_status(calls: Calls, token: str, audiences: Sequence[str]) -> TokenStatus:
    """The API server's word on a token. audiences: for whom it must be; none: for the API server. Raises KubeError."""
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = audiences
    return (
        await reviewed(calls, TOKENS, "authentication.k8s.io/v1", "TokenReview", spec, _TokenReview)
    ).status


async def reviewed(
    calls: Calls, path: str, version: str, kind: str, spec: Mapping[str, Any], answer: type[T]
) -> T:
    """The answer to one review. Raises KubeError; nothing of an answer that cannot be read is shown."""
    body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
    said = await calls.request("POST", path, body=body, timeout=LIMIT)
    try:
        return msgspec.json.decode(said, type=answer)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Garbled(f"POST {path}", "the answer is no review") from None
