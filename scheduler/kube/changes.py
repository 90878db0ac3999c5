"""What a reflector tells its sink, and how the API's JSON becomes it.

Lives here: the description of a watched kind, the four kinds of change, and the decoding of pages and watch lines.
Never here: a connection, or what was known before. Each object is read in two steps: its head (name, uid, version),
which tells whether there is anything new at all, then the caller's own struct; what that struct does not declare is
never built. A page or line is only sliced: objects are decoded from it one by one, so that one bad object costs one
object.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from scheduler import errors

T = TypeVar("T")

BROKEN = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises for bytes of a stranger; depth ends in RecursionError."""


class Key(NamedTuple):
    """Where an object of a kind is found; the namespace is empty for what belongs to the cluster."""

    namespace: str
    name: str


def key_at(place: str) -> Key:
    """The key that `Meta.place` tells of."""
    namespace, _, name = place.partition("/")
    return Key(namespace, name)


class Seen(msgspec.Struct, Generic[T], frozen=True):
    """The object exists, in this state."""

    key: Key
    uid: str
    object: T


class Gone(msgspec.Struct, Generic[T], frozen=True):
    """The object exists no more. `object` is its last state, if the API server told us."""

    key: Key
    uid: str
    object: T | None = None


class Malformed(msgspec.Struct, frozen=True):
    """An object could not be read and was skipped; what was Seen of it before is its last readable state."""

    key: Key | None
    uid: str
    message: str


class Synced(msgspec.Struct, frozen=True):
    """A list is complete: all that exists has been Seen, all else is Gone."""

    count: int


Change: TypeAlias = Seen[T] | Gone[T] | Malformed | Synced
Sink: TypeAlias = Callable[[Sequence[Change[T]]], None]
"""Takes what happened, in order and in batches. Must be quick, and must not raise: an error of a sink is an error
of ours and ends the reflector."""


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind of object to follow.

    `path` is the collection's, such as `/api/v1/pods` or `/api/v1/namespaces/team/pods`; `type` is what msgspec
    makes of one object. An `optional` kind (one that comes with a custom resource definition) which the API server
    does not know counts as an empty list; so does a `dispensable` kind that we may not list.
    """

    path: str
    type: type[T]
    label_selector: str = ""
    field_selector: str = ""
    optional: bool = False
    dispensable: bool = False
    decoder: msgspec.json.Decoder[T] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decoder", msgspec.json.Decoder(self.type))

    @property
    def selectors(self) -> dict[str, str]:
        """The query parameters that narrow the list."""
        chosen = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in chosen.items() if value}


class Meta(msgspec.Struct):
    """The head of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def place(self) -> str:
        """The key as one text, with a slash that no name can hold."""
        return f"{self.namespace}/{self.name}"


class Head(msgspec.Struct):
    metadata: Meta


class ListMeta(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list; the items still as they came."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct):
    """A line of a watch; the object still as it came."""

    type: str
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(Page)
_EVENT = msgspec.json.Decoder(Event)
_HEAD = msgspec.json.Decoder(Head)


def read_page(call: str, body: bytes) -> Page:
    """The page, or Garbled."""
    try:
        return _PAGE.decode(body)
    except BROKEN as error:
        raise errors.Garbled(call, f"not a page of a list: {error}") from error


def read_event(line: bytes) -> Event | Malformed:
    """The event, or what is wrong with the line."""
    try:
        return _EVENT.decode(line)
    except BROKEN as error:
        return Malformed(None, "", errors.shortened(f"not a watch event: {error}"))


def read_meta(raw: msgspec.Raw) -> Meta | Malformed:
    """The object's head, or what is wrong with it."""
    try:
        return _HEAD.decode(raw).metadata
    except BROKEN as error:
        return Malformed(None, "", errors.shortened(str(error)))


def read_object(resource: Resource[T], meta: Meta, raw: msgspec.Raw) -> Seen[T] | Malformed:
    """The whole object as the caller's type, or what is wrong with it."""
    try:
        return Seen(meta.key, meta.uid, resource.decoder.decode(raw))
    except BROKEN as error:
        return Malformed(meta.key, meta.uid, errors.shortened(str(error)))


class Lines:
    """Cuts a stream of chunks into lines of any length; a line may lie across many chunks.

    aiohttp's `readline` fails on lines above its buffer limit, and joining at every chunk would be quadratic.
    A line holds one object. etcd bounds it: 1.5 MiB by default, and six bytes of JSON at most for each of those.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without empty ones and without their ends."""
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, whole)).split(b"\n")
        self._rest = [rest] if rest else []
        return [line for line in lines if line.strip()]
