# ruff: noqa: N818 - the names are the API's own words
"""Every error that Gangwright raises on purpose, as one tree.

    GangwrightError
    ├── SettingsError(field, value, remedy)     a setting, flag or file is wrong; the user must fix it
    └── KubeError                               the API server's error, or a missing answer
        ├── Unreachable                         no answer: refused, reset, name unknown, TLS, timeout
        │   └── Silent                          the connection is open, but no data arrived
        │       └── Deaf                        although an event had happened
        ├── Fenced                              never sent: another replica may be active
        ├── Garbled                             the answer does not have the form that the API defines
        ├── TooLong                             the answer exceeds the size limit
        ├── Unauthorized            401         the credentials were not accepted
        ├── Forbidden               403         Gangwright lacks the permission
        ├── NotFound                404
        ├── Conflict                409         another client wrote first, or the object already exists
        ├── Gone                    410         the resource version is too old to continue from
        ├── Invalid                 400, 422    the request is wrong
        ├── TooManyRequests         429         retry later; also an eviction that a PDB blocks
        └── ServerError             5xx

Lives here: plain classes with plain fields, for the packages that do I/O. Code that decides returns its failures as
values instead. Never here: how to handle an error. Why one tree: a caller catches the errors that it can handle and
lets the rest pass. An error that reaches a user names the problem, its location and the fix. No error text ever holds a
credential. Texts from other programs are cut to `TEXT_LIMIT` characters.
"""

TEXT_LIMIT = 256
"""Characters kept of a text that another program or a user wrote."""


def shortened(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text on one line, at most `limit` characters, with an ellipsis where it was cut."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def abridged(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text on one line, at most `limit` characters, cut in the middle: the API server quotes the whole object
    before it states the problem.
    """
    if len(text) > 4 * limit:
        text = f"{text[: 2 * limit]} {text[-2 * limit :]}"
    line, head = " ".join(text.split()), limit // 2
    return line if len(line) <= limit else f"{line[:head]}…{line[head + 1 - limit :]}"


class GangwrightError(Exception):
    """The root of the tree."""


class SettingsError(GangwrightError):
    """A setting is wrong: its field, its value, and the fix."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {shortened(repr(value))}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class KubeError(GangwrightError):
    """The API server rejected a call or did not answer.

    `call` is the method and path. `status` is the HTTP status, 0 if there was none. `reason` and `causes` are the fixed
    words of the API's Status object (`AlreadyExists`, `DisruptionBudget` …). `retry_after` is the number of seconds
    that the server asks the client to wait, or None. `words` is the text for users, without the call.
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
    """The connection is open, but no data arrived for too long."""


class Deaf(Silent):
    """A watch did not deliver an event that a second request showed."""


class Fenced(KubeError):
    """The call was not made: another replica may be active."""


class Garbled(KubeError):
    """The answer does not have the form that the API defines."""


class TooLong(KubeError):
    """The answer has more bytes than the caller allows. The rest was not read."""


class Unauthorized(KubeError):
    """The API server does not accept the credentials (401)."""


class Forbidden(KubeError):
    """The credentials are valid, but lack the permission (403)."""


class NotFound(KubeError):
    """No such object, or no such kind (404)."""


class Conflict(KubeError):
    """Another client wrote first, or the object already exists (409; `reason` tells which)."""


class Gone(KubeError):
    """The resource version or the continue token is too old (410): list again."""


class Invalid(KubeError):
    """The request is wrong (400, 422)."""

    @property
    def of_another(self) -> bool:
        """The uid in the request is not the object's: the intended object was deleted, and another has its name."""
        return "metadata.uid" in str(self)


class TooManyRequests(KubeError):
    """Retry later (429): the server is busy, or a disruption budget blocks an eviction (`causes` tells which)."""


class ServerError(KubeError):
    """The API server itself failed (5xx)."""


def first_of(error: BaseException) -> BaseException:
    """The first error of a group. The others are tasks that ended because of it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
