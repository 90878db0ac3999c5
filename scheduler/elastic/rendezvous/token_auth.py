"""Which pod a token belongs to: the API server's word, remembered for a while.

Lives here: what a review of a token says, and how long it counts. Never here: whether that pod is a worker; the master
knows. Tokens are known by their hash alone, and no text of ours holds one.

A yes is asked for again in the background when half its time is over, so that a beat never waits for a review. While
tokens are not reviewed (an admission or authentication webhook that is down; without any answer of the API server the
Lease ends too, and nobody is heard until it is back), whom it believed is believed further, up to a limit and to the
token's own end: else a minute of that would silence every worker. Nobody new is let in meanwhile.
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
"""Tokens believed at a time; a worker has one, and a second while it is renewed."""

REFUSED_KEPT: Final = 1024
"""Tokens not believed; apart, so that a flood of them forgets no good one."""

AT_ONCE: Final = 16
"""Reviews under way at a time."""

PAUSE: Final = 1.0
"""Seconds without a further question after the API server gave no answer."""


FAULTS: Final = {
    Reason.TOKEN_EXPIRED: "the token has expired; read it anew from its file",
    Reason.TOKEN_FOR_OTHERS: "the token must be made for the audience {audience}",
    Reason.TOKEN_REFUSED: "the API server does not know this token for the audience {audience}",
    Reason.NO_POD: "the token is bound to no pod; it must be the projected one of a worker's pod",
}


class Holder(NamedTuple):
    """The pod that a token was made for."""

    uid: str
    pod: str
    namespace: str


class _Claims(Struct):
    """What a token says of itself. Believed only where it refuses."""

    exp: float = 0.0
    aud: list[str] | str = []


class _Word(NamedTuple):
    """What the API server said, when, and how long that may count: the holder, or what is wrong with the token."""

    asked: float
    said: Holder | Reason
    ends: float = 0.0


class Tokens:
    """Asks the API server whose a token is.

    told: hears of every review, `yes`, `no` or `away`.
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
        """Its review is remembered or under way: it costs the API server nothing."""
        name, words = _hashed(token), self._words
        return words.asked(name) or words.last_yes(name) is not None or words.known(name) is not None

    async def who(self, token: str) -> Holder:
        """The pod that this token was made for. Raises Refused."""
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
        """Give up the reviews under way."""
        await self._words.close()

    async def _fresh(self, name: bytes, token: str) -> _Word:
        """The API server's word of now; an older one where it has none to give."""
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
        """The API server's word. Raises Refused when there is none."""
        try:
            async with self._gate:
                status = await token_status(self._calls, token, [self._settings.audience])
        except KubeError:
            self._away_since = self._clock()
            self._told("away")
            raise _away() from None  # whatever the API server said of its trouble is not the worker's business
        self._away_since = -math.inf
        word = self._word(status, token)
        self._told("yes" if isinstance(word.said, Holder) else "no")
        return word

    def _word(self, status: TokenStatus, token: str) -> _Word:
        """A refusal names what is most likely wrong with the token, by what it says of itself."""
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
    """The pod of a token that is bound to one."""
    extra = user.extra or {}
    names, uids = extra.get(POD_NAME) or [""], extra.get(POD_UID) or [""]
    namespace = user.username.removeprefix(ACCOUNT).partition(":")[0]
    if not (user.username.startswith(ACCOUNT) and namespace and names[0] and uids[0]):
        return None
    return Holder(uids[0], names[0], namespace)


def _claims(token: str) -> _Claims:
    """The middle part of a JWT, unchecked; nothing where it is none."""
    try:
        part = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(f"{part}=="), type=_Claims)
    except (IndexError, ValueError, RecursionError):
        return _Claims()


def _away() -> Refused:
    return Refused(Reason.AWAY, "the API server cannot be asked whose this token is; try again in a moment")
