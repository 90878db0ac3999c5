# ruff: noqa: N818 - the names are the API's own words, and read as such where they are caught
"""Every error that Gangwright raises on purpose, as one tree.

    GangwrightError
    ├── SettingsError(field, value, remedy)     a setting, flag or file of ours is wrong; a person must act
    └── KubeError                               the API server's answer, or the lack of one
        ├── Unreachable                         no answer: refused, reset, name unknown, TLS, time over
        │   └── Silent                          the connection stands, and nothing was heard on it
        │       └── Deaf                        although something had happened
        ├── Fenced                              never sent: another may act by now
        ├── Garbled                             an answer that is not what the API says it is
        ├── TooLong                             an answer of more bytes than we read
        ├── Unauthorized            401         who we are was not believed
        ├── Forbidden               403         we may not do this
        ├── NotFound                404
        ├── Conflict                409         somebody wrote before us, or it exists already
        ├── Gone                    410         the resource version is too old to go on from
        ├── Invalid                 400, 422    what we sent is wrong
        ├── TooManyRequests         429         later, please; also an eviction that a PDB refuses
        └── ServerError             5xx

Lives here: plain classes with plain fields, for the rooms that touch the world; what decides fails by its answer, never
by one of these. Never here: anything that decides what to do about an error. Why one tree: a caller catches what it can
treat and lets the rest pass, and whatever reaches a person names what was wrong, where, and what would be right. No
text of an error ever holds a credential; texts of strangers are cut to `TEXT_LIMIT` characters.
"""

TEXT_LIMIT = 256
"""Characters kept of a text that somebody else wrote."""


def shortened(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text on one line, at most `limit` characters, with an ellipsis where it was cut."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def abridged(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text on one line, at most `limit` characters, cut in the middle: the API server quotes a whole object before
    it says what is wrong with it.
    """
    if len(text) > 4 * limit:
        text = f"{text[: 2 * limit]} {text[-2 * limit :]}"
    line, head = " ".join(text.split()), limit // 2
    return line if len(line) <= limit else f"{line[:head]}…{line[head + 1 - limit :]}"


class GangwrightError(Exception):
    """The root of the tree."""


class SettingsError(GangwrightError):
    """A setting is wrong: which one, what it was, and what would be right."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {shortened(repr(value))}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class KubeError(GangwrightError):
    """The API server said no, or said nothing.

    `call` is the method and path; `status` the HTTP status, 0 when there was none; `reason` and `causes` are the
    closed words of the API's Status object (`AlreadyExists`, `DisruptionBudget` …); `retry_after` is what the
    server asks us to wait, in seconds, or None. `words` is the whole without the call, for people.
    """

    def __init__(
        self,
        call: str,
        text: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        head = " ".join(word for word in (str(status) if status else "", reason) if word)
        words = ": ".join(part for part in (head, shortened(text)) if part)
        super().__init__(": ".join(part for part in (call, words) if part))
        self.call = call
        self.words = words
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after


class Unreachable(KubeError):
    """There was no answer."""


class Silent(Unreachable):
    """The connection stands, but nothing was heard on it for too long."""


class Deaf(Silent):
    """Nothing was heard on a watch of what happened, and was seen beside it."""


class Fenced(KubeError):
    """The call was not made: it may be another replica's turn to act."""


class Garbled(KubeError):
    """The answer is not what the API says it is."""


class TooLong(KubeError):
    """The answer has more bytes than the caller reads; its end was left."""


class Unauthorized(KubeError):
    """The API server does not believe who we are (401)."""


class Forbidden(KubeError):
    """We are known, and may not do this (403)."""


class NotFound(KubeError):
    """No such object, or no such kind (404)."""


class Conflict(KubeError):
    """Somebody wrote before us, or the object exists already (409; `reason` tells which)."""


class Gone(KubeError):
    """The resource version or the continue token is too old (410): list again."""


class Invalid(KubeError):
    """What we sent is wrong (400, 422)."""

    @property
    def of_another(self) -> bool:
        """The uid that we sent is not the object's: its name is another's by now, and the one that was meant is
        gone.
        """
        return "metadata.uid" in str(self)


class TooManyRequests(KubeError):
    """Not now (429): the server is busy, or a disruption budget forbids an eviction (`causes` tells)."""


class ServerError(KubeError):
    """The API server is in trouble itself (5xx)."""


def first_of(error: BaseException) -> BaseException:
    """What went wrong first; the rest of a group are tasks that fell with it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
