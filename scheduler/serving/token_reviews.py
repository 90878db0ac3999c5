"""TokenReview: the API server's answer about the caller of an HTTP edge.

Lives here: the header that carries a bearer token, the call, and TokenReview as JSON. Never here: a cache of answers,
or their consequences; the edges differ in both. `Calls` has the form of `scheduler.kube.client.Client.request`, for
edges that must not import that package.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from scheduler.errors import Garbled

LONGEST_TOKEN: Final = 16_384
"""Maximum characters. A token with the groups of a large directory has about 8,000."""


class Unknown(Exception):  # noqa: N818 - a word of the field
    """The request has no usable credentials. The text names the fix."""


def token(request: web.Request) -> str | None:
    """The bearer token of a request, or None if it has none. Raises Unknown for a header of another kind."""
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, word = header.partition(" ")
    word = word.strip()
    if scheme.lower() != "bearer" or not word:
        raise Unknown("the Authorization header must be: Bearer TOKEN")
    if len(word) > LONGEST_TOKEN or not (word.isascii() and word.isprintable()):
        raise Unknown("the bearer token is invalid: it is too long or has characters that no token has")
    return word


class Calls(Protocol):
    """Requests to the API server. Raises KubeError."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 10.0,  # noqa: ASYNC109 - a property of the call, not a way to stop it
    ) -> bytes: ...


TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"

LIMIT: Final = 5.0
"""Seconds for one review. The API server itself needs milliseconds, a webhook behind it more."""

T = TypeVar("T", bound=Struct)


class User(Struct):
    """The identity of a caller."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class TokenStatus(Struct):
    """The status of a token. An API server that does not support audiences names none."""

    authenticated: bool = False
    user: User = msgspec.field(default_factory=User)
    audiences: list[str] | None = None


class _TokenReview(Struct):
    status: TokenStatus = msgspec.field(default_factory=TokenStatus)


async def token_status(calls: Calls, token: str, audiences: Sequence[str]) -> TokenStatus:
    """The API server's review of a token. audiences: of the token; none: the API server itself. Raises KubeError."""
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = audiences
    return (
        await reviewed(calls, TOKENS, "authentication.k8s.io/v1", "TokenReview", spec, _TokenReview)
    ).status


async def reviewed(
    calls: Calls, path: str, version: str, kind: str, spec: Mapping[str, Any], answer: type[T]
) -> T:
    """The answer to one review. Raises KubeError. The error shows no part of an answer that cannot be read."""
    body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
    said = await calls.request("POST", path, body=body, timeout=LIMIT)
    try:
        return msgspec.json.decode(said, type=answer)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Garbled(f"POST {path}", "the answer is not a review") from None
