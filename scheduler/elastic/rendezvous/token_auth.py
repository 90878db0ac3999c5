"""Which pod a token belongs to: the API server's review, cached for a while.

Lives here: the result of a token review, and how long it is valid. Never here: whether that pod is a worker; the master
knows that. Tokens are stored only as hashes, and no text contains one.

A positive result is renewed in the background after half its validity, so that a beat never waits for a review. If
token reviews fail, cached positive results stay valid up to a limit and up to the token's own expiry: otherwise one
minute without reviews would silence every worker. New workers are rejected meanwhile. Reviews fail, for example, while
an admission or authentication webhook is down. Without any answer of the API server the Lease expires too, and the
master hears no worker until the API server is back.
"""

import asyncio
import base64
import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
from scheduler.errors import KubeError
from scheduler.serving.review_cache import Kept, ReviewCache
from scheduler.serving.token_reviews import Calls, TokenStatus, User, token_status
from scheduler.settings import RendezvousServer

POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
ACCOUNT: Final = "system:serviceaccount:"

KEPT: Final = 8192
"""Maximum number of accepted tokens; a worker has one, and a second while it is renewed."""

REFUSED_KEPT: Final = 1024
"""Maximum number of rejected tokens. Separate, so that a flood of them evicts no accepted token."""

AT_ONCE: Final = 16
"""Maximum number of concurrent reviews."""

PAUSE: Final = 1.0
"""Seconds until the next review after the API server gave no answer."""


FAULTS: Final = {
    Reason.TOKEN_EXPIRED: "the token has expired. Read it again from its file",
    Reason.TOKEN_FOR_OTHERS: "the token must be issued for the audience {audience}",
    Reason.TOKEN_REFUSED: "the API server does not accept this token for the audience {audience}",
    Reason.NO_POD: "the token is not bound to a pod. Use the projected token of a worker's pod",
}


class Holder(NamedTuple):
    """The pod that a token was issued for."""

    uid: str
    pod: str
    namespace: str


class _Claims(Struct):
    """Claims of a token, unverified. They serve only to explain a rejection, and to limit a cached result."""

    exp: float = 0.0
    aud: list[str] | str = []


class _Word(NamedTuple):
    """A review: its time, its result (the holder, or what is wrong with the token), and the expiry of the token."""

    asked: float
    said: Holder | Reason
    ends: float = 0.0


class Tokens:
    """Asks the API server which pod a token belongs to.

    told: called after every review with `yes`, `no` or `away`.
    """

    def __init__(
        self,
        calls: Calls,
        settings: RendezvousServer,
        clock: Callable[[], float],
        told: Callable[[str], None] = lambda _answer: None,
    ) -> None:
        self._calls = calls
        self._settings = settings
        self._clock = clock
        self._told = told
        self._words: ReviewCache[bytes, _Word] = ReviewCache(
            yes=Kept(settings.remember, KEPT),
            no=Kept(settings.remember_refusal, REFUSED_KEPT),
            is_yes=lambda word: isinstance(word.said, Holder),
            clock=clock,
        )
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._away_since = -math.inf

    def is_known(self, token: str) -> bool:
        """Whether its review is cached or in progress, so that it costs the API server nothing."""
        name, words = _hashed(token), self._words
        return words.asked(name) or words.last_yes(name) is not None or words.known(name) is not None

    async def who(self, token: str) -> Holder:
        """The pod that this token was issued for. Raises Refused."""
        name = _hashed(token)
        word = self._words.known(name)
        if word is None:
            word = await self._fresh(name, token)
        elif (
            isinstance(word.said, Holder)
            and self._clock() > word.asked + self._settings.remember / 2
            and self._may_ask()
        ):
            self._words.ask(name, partial(self._review, token))
        if isinstance(word.said, Reason):
            raise Refused(word.said, FAULTS[word.said].format(audience=self._settings.audience))
        return word.said

    async def close(self) -> None:
        """Cancel the reviews in progress."""
        await self._words.close()

    async def _fresh(self, name: bytes, token: str) -> _Word:
        """The result of a new review; a cached one if the API server gives no answer."""
        try:
            if not self._words.asked(name) and not self._may_ask():
                raise _away()
            return await self._words.get(name, partial(self._review, token))
        except Refused:
            old = self._words.last_yes(name)
            if old is not None and self._clock() < min(old.ends, old.asked + self._settings.outage):
                return old
            raise

    def _may_ask(self) -> bool:
        return self._clock() >= self._away_since + PAUSE

    async def _review(self, token: str) -> _Word:
        """The API server's review. Raises Refused if there is none."""
        try:
            async with self._gate:
                status = await token_status(self._calls, token, [self._settings.audience])
        except KubeError:
            self._away_since = self._clock()
            self._told("away")
            raise _away() from None  # the worker must not see the API server's error
        self._away_since = -math.inf
        word = self._word(status, token)
        self._told("yes" if isinstance(word.said, Holder) else "no")
        return word

    def _word(self, status: TokenStatus, token: str) -> _Word:
        """The result of a review. A rejection names the most likely fault of the token, from its claims."""
        now, claims, audience = self._clock(), _claims(token), self._settings.audience
        if status.authenticated and audience in (status.audiences or ()):
            return _Word(now, _holder(status.user) or Reason.NO_POD, claims.exp)
        if 0 < claims.exp <= now:
            return _Word(now, Reason.TOKEN_EXPIRED)
        named = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        return _Word(
            now, Reason.TOKEN_FOR_OTHERS if named and audience not in named else Reason.TOKEN_REFUSED
        )


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _holder(user: User) -> Holder | None:
    """The pod to which a token is bound; None if it is bound to none."""
    extra = user.extra or {}
    names, uids = extra.get(POD_NAME) or [""], extra.get(POD_UID) or [""]
    namespace = user.username.removeprefix(ACCOUNT).partition(":")[0]
    if not (user.username.startswith(ACCOUNT) and namespace and names[0] and uids[0]):
        return None
    return Holder(uids[0], names[0], namespace)


def _claims(token: str) -> _Claims:
    """The payload of a JWT, unverified; empty claims if the token is not a JWT."""
    try:
        part = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(f"{part}=="), type=_Claims)
    except (IndexError, ValueError, RecursionError):
        return _Claims()


def _away() -> Refused:
    return Refused(Reason.AWAY, "the API server cannot review this token now. Try again in a moment")
