"""The caller, and what it may see and do: reviews by the API server, cached for a while.

Lives here: the holder of a bearer token or of a client certificate; SubjectAccessReview as JSON; and aliases for gangs
whose names a caller may not read. Never here: rules of Gangwright's own; the cluster's RBAC decides.

A token takes precedence over a certificate, as in the API server. While the API server is down, no new caller is
accepted: errors are passed on and never cached. Tokens are only kept as keyed hashes, so that a dump of this process
reveals none. Aliases are keyed hashes too: the page colors one gang the same everywhere, and guessed names cannot be
tested against them. The key is generated at start and never leaves the process.
"""

import asyncio
import hashlib
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from scheduler.model.workload import GangKey
from scheduler.serving.review_cache import Kept, ReviewCache
from scheduler.serving.token_reviews import Calls, User, reviewed, token_status

AUTHENTICATED: Final = "system:authenticated"
"""The group of every authenticated user. For the holder of a certificate, the reader of the certificate must add it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A user as the API server knows it: the subject of an access review."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def holder(certificate: Mapping[str, Any] | None, now: float) -> Subject | None:
    """The user of a client certificate, in the form of `SSLSocket.getpeercert`: CN is the user, every O a group.

    The handshake checked its signature. It may have expired since, so its end is checked again. now: seconds since the
    epoch.
    """
    if not certificate or ssl.cert_time_to_seconds(certificate["notAfter"]) < now:
        return None
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    users = [value for key, value in parts if key == "commonName" and value]
    if not users:
        return None
    groups = [value for key, value in parts if key == "organizationName"]
    return Subject(users[0], tuple(dict.fromkeys([*groups, AUTHENTICATED])))


def tenant(user: str) -> str:
    """The unit of rate limits. All service accounts of a namespace share one: a tenant can create any number."""
    account = user.startswith("system:serviceaccount:")
    return user.rpartition(":")[0] if account else user


Alias = Callable[[GangKey], str]


@dataclass(frozen=True, slots=True)
class Sight:
    """What one caller may read. namespaces: None means all. unchecked: how many could not be reviewed yet."""

    namespaces: frozenset[str] | None
    alias: Alias
    unchecked: int = 0

    def sees(self, key: GangKey) -> bool:
        return self.namespaces is None or key.namespace in self.namespaces


def aliases(secret: bytes) -> Alias:
    """A function that gives aliases for gangs: 16 hexadecimal digits. secret: at most 64 bytes."""

    def alias(key: GangKey) -> str:
        return hashlib.blake2b(f"{key.namespace}\n{key.name}".encode(), key=secret, digest_size=8).hexdigest()

    return alias


UNDER_WAY: Final = 4
"""Concurrent reviews for all callers: half of the connections that watches and writes leave free."""

TOKENS_KEPT: Final = 1024
RIGHTS_KEPT: Final = 8192
"""Cached answers about rights, for "yes" and "no" each. A user has one for each namespace that has gangs."""

ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """An action on a resource. An empty namespace means all namespaces, an empty name every object."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    group: str = ""
    subresource: str = ""


class _AccessStatus(Struct):
    allowed: bool = False


class _AccessReview(Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


@dataclass(frozen=True, slots=True)
class _Word:
    """The API server's review of a token: its holder, or None if it is invalid."""

    subject: Subject | None


class Reviews:
    """Requests reviews from the API server. audiences: accepted audiences of tokens; none: the API server itself.

    yes, no: seconds that answers are cached.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        audiences: tuple[str, ...] = (),
        yes: float = 60.0,
        no: float = 10.0,
        clock: Callable[[], float],
        told: Callable[[str, str], None] = lambda _kind, _result: None,
    ) -> None:
        self._calls = calls
        self._audiences = audiences
        self._key = secrets.token_bytes(32)
        self._turns = asyncio.Semaphore(UNDER_WAY)
        self._told = told
        self._tokens: ReviewCache[str, _Word] = ReviewCache(
            yes=Kept(yes, TOKENS_KEPT),
            no=Kept(no, TOKENS_KEPT),
            is_yes=lambda word: word.subject is not None,
            clock=clock,
        )
        self._rights: ReviewCache[tuple[Subject, Right], bool] = ReviewCache(
            yes=Kept(yes, RIGHTS_KEPT), no=Kept(no, RIGHTS_KEPT), clock=clock
        )

    def hashed(self, token: str) -> str:
        """The keyed hash that stands for a token in the cache."""
        return hashlib.blake2b(token.encode(), key=self._key, digest_size=32).hexdigest()

    def is_known(self, token: str) -> bool:
        """Whether its review is cached or under way, so that it costs the API server nothing."""
        key = self.hashed(token)
        return self._tokens.known(key) is not None or self._tokens.asked(key)

    async def who(self, token: str) -> Subject | None:
        """The holder of this token; None if it is invalid. Raises KubeError if the API server does not answer."""
        return (await self._tokens.get(self.hashed(token), lambda: self._review(token))).subject

    def remembered(self, subject: Subject, right: Right) -> bool | None:
        """Whether the subject has this right, if the answer is cached."""
        return self._rights.known((subject, right))

    async def may(self, subject: Subject, right: Right, *, fresh: bool = False) -> bool:
        """Whether the subject has this right. fresh: ignore the cache. Raises KubeError if the API server is down."""
        return await self._rights.get((subject, right), lambda: self._access(subject, right), fresh=fresh)

    async def _review(self, token: str) -> _Word:
        async with self._turns:
            status = await token_status(self._calls, token, self._audiences)
        good = status.authenticated and bool(status.user.username)
        if self._audiences:  # an API server without support for audiences names none and has not checked them
            good = good and not set(self._audiences).isdisjoint(status.audiences or ())
        self._told("token", "yes" if good else "no")
        return _Word(_subject(status.user) if good else None)

    async def _access(self, subject: Subject, right: Right) -> bool:
        spec = {
            "user": subject.user,
            "groups": subject.groups,
            "uid": subject.uid,
            "extra": dict(subject.extra),
            "resourceAttributes": right,
        }
        version, kind = "authorization.k8s.io/v1", "SubjectAccessReview"
        async with self._turns:
            review = await reviewed(self._calls, ACCESS_REVIEWS, version, kind, spec, _AccessReview)
        self._told("access", "yes" if review.status.allowed else "no")
        return review.status.allowed


def _subject(user: User) -> Subject:
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.extra or {}).items()))
    return Subject(user.username, tuple(user.groups or ()), user.uid, extra)
