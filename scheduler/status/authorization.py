"""Who asks, and what it may see and do: the API server's word, remembered for a while.

Lives here: the holder of a bearer token or of a client certificate; SubjectAccessReview as JSON; and the names that stand for gangs which a caller may not read. Never here: rules of our own;
the cluster's RBAC decides.

A token counts before a certificate, as with the API server. While the API server is away no new caller is let in: its
errors pass through, and are never remembered. Tokens are kept as keyed hashes alone, so that no dump of this process
gives one away. Hidden names are keyed hashes too: the page colors one gang alike everywhere, and a guess of a name cannot
be tested against it. The key is made at start and never leaves the process.
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
"""The group of everybody whom the API server knows; of a certificate's holder it must be added by whoever reads it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A user as the API server knows him; what an access review is asked about."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def holder(certificate: Mapping[str, Any] | None, now: float) -> Subject | None:
    """Whom a client certificate names, in the form of `SSLSocket.getpeercert`: CN the user, every O a group.

    Its signature was checked when the connection was made; the connection may have outlived it since, so its end is
    checked again. now: seconds since the epoch.
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
    """What has its share beside others: all service accounts of a namespace are one, for a tenant can make any number."""
    account = user.startswith("system:serviceaccount:")
    return user.rpartition(":")[0] if account else user


Alias = Callable[[GangKey], str]


@dataclass(frozen=True, slots=True)
class Sight:
    """What one asker may read. namespaces: None means all of them. unchecked: how many could not be asked about yet."""

    namespaces: frozenset[str] | None
    alias: Alias
    unchecked: int = 0

    def sees(self, key: GangKey) -> bool:
        return self.namespaces is None or key.namespace in self.namespaces


def aliases(secret: bytes) -> Alias:
    """Names that stand for gangs: 16 hexadecimal digits. secret: at most 64 bytes."""

    def alias(key: GangKey) -> str:
        return hashlib.blake2b(f"{key.namespace}\n{key.name}".encode(), key=secret, digest_size=8).hexdigest()

    return alias


UNDER_WAY: Final = 4
"""Reviews at a time, of all that ask: half of the connections that are left beside watches and writes."""

TOKENS_KEPT: Final = 1024
RIGHTS_KEPT: Final = 8192
"""Answers about rights of one kind; one user has one for each namespace that has gangs."""

ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """One thing that somebody wants to do; an empty namespace means all of them, an empty name every object."""

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
    """What the API server said of a token: its holder, or that it is good for nothing."""

    subject: Subject | None


class Reviews:
    """Asks the API server. audiences: for which a token must be made; none: for the API server itself.

    yes, no: seconds that answers are remembered.
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
        """What a token is known by here."""
        return hashlib.blake2b(token.encode(), key=self._key, digest_size=32).hexdigest()

    def is_known(self, token: str) -> bool:
        """Its review is remembered, or under way: it costs the API server nothing."""
        key = self.hashed(token)
        return self._tokens.known(key) is not None or self._tokens.asked(key)

    async def who(self, token: str) -> Subject | None:
        """Whose token this is; None when it is nobody's. Raises KubeError when the API server cannot be asked."""
        return (await self._tokens.get(self.hashed(token), lambda: self._review(token))).subject

    def remembered(self, subject: Subject, right: Right) -> bool | None:
        """Whether he may, if that is known without asking."""
        return self._rights.known((subject, right))

    async def may(self, subject: Subject, right: Right, *, fresh: bool = False) -> bool:
        """Whether the cluster lets him. fresh: as it is now. Raises KubeError when the API server cannot be asked."""
        return await self._rights.get((subject, right), lambda: self._access(subject, right), fresh=fresh)

    async def _review(self, token: str) -> _Word:
        async with self._turns:
            status = await token_status(self._calls, token, self._audiences)
        good = status.authenticated and bool(status.user.username)
        if self._audiences:  # an API server that knows no audiences names none, and so has not checked them
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
