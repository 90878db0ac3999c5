"""The changes that a reflector passes to its sink, and their decoding from the API's JSON.

Lives here: the description of a watched kind, the four kinds of change, and the decoding of pages and watch lines.
Never here: a connection, or the previous state. Each object is read in two steps: first its head (name, uid, version),
which tells whether it changed, then the caller's own struct. Fields that this struct does not declare are never built.
A page or line is only sliced. Objects are decoded from it one by one, so that one bad object affects no other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from scheduler import errors

T = TypeVar("T")

BROKEN = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors that decoding untrusted bytes may raise. Deep nesting ends in RecursionError."""


class Key(NamedTuple):
    """The namespace and name of an object. The namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str


def key_at(place: str) -> Key:
    """The key that `Meta.place` stands for."""
    namespace, _, name = place.partition("/")
    return Key(namespace, name)


class Seen(msgspec.Struct, Generic[T], frozen=True):
    """The object exists, in this state."""

    key: Key
    uid: str
    object: T


class Gone(msgspec.Struct, Generic[T], frozen=True):
    """The object no longer exists. `object` is its last state, if the API server sent it."""

    key: Key
    uid: str
    object: T | None = None


class Malformed(msgspec.Struct, frozen=True):
    """An object could not be read and was skipped. The last Seen of it is its last readable state."""

    key: Key | None
    uid: str
    message: str


class Synced(msgspec.Struct, frozen=True):
    """A list is complete: every existing object has been Seen, all others are Gone."""

    count: int


Change: TypeAlias = Seen[T] | Gone[T] | Malformed | Synced
Sink: TypeAlias = Callable[[Sequence[Change[T]]], None]
"""Takes changes in order and in batches. It must be fast and must not raise: an error of a sink is a bug and ends the
reflector."""


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind of object to follow.

    `path` is the path of the collection, for example `/api/v1/pods` or `/api/v1/namespaces/team/pods`. `type` is the
    struct that msgspec decodes an object to. An `optional` kind (from a CustomResourceDefinition) that the API server
    does not know counts as an empty list. So does a `dispensable` kind that Gangwright may not list.
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
        """The key as one text, separated by a slash, which no name can contain."""
        return f"{self.namespace}/{self.name}"


class Head(msgspec.Struct):
    metadata: Meta


class ListMeta(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list, with undecoded items."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct):
    """A line of a watch, with the undecoded object."""

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
    """The event, or the problem of the line."""
    try:
        return _EVENT.decode(line)
    except BROKEN as error:
        return Malformed(None, "", errors.shortened(f"not a watch event: {error}"))


def read_meta(raw: msgspec.Raw) -> Meta | Malformed:
    """The object's head, or its problem."""
    try:
        return _HEAD.decode(raw).metadata
    except BROKEN as error:
        return Malformed(None, "", errors.shortened(str(error)))


def read_object(resource: Resource[T], meta: Meta, raw: msgspec.Raw) -> Seen[T] | Malformed:
    """The whole object as the caller's type, or its problem."""
    try:
        return Seen(meta.key, meta.uid, resource.decoder.decode(raw))
    except BROKEN as error:
        return Malformed(meta.key, meta.uid, errors.shortened(str(error)))


class Lines:
    """Cuts a stream of chunks into lines of any length. A line may span many chunks.

    aiohttp's `readline` fails on lines above its buffer limit, and joining at every chunk would be quadratic. A line
    holds one object. etcd bounds its size: 1.5 MiB by default, with at most six bytes of JSON for each of those.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without line ends and empty lines."""
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, whole)).split(b"\n")
        self._rest = [rest] if rest else []
        return [line for line in lines if line.strip()]
