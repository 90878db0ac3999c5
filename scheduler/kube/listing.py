"""Objects of a kind, read once: every page of their list, each bounded by bytes; and the path where one object is.

Lives here: how many objects a page is asked for, when passing failures of a one-time list are tried again, and kind →
path. Never here: what an object means, or what stays up to date (`watch`, which reads its lists through `Pages`).

The API server bounds a page by the number of its objects, and one pod may have a megabyte. 500 of those are half a
gigabyte, which is neither sent in time nor held. So reading stops at `PAGE_BYTES`, and the same page is asked for again
with fewer objects. Why not a watch that brings the initial objects one by one: an API server may have it switched off,
so it needs pages beside it, and it reads large pods no faster.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import stamina

from scheduler import errors
from scheduler.kube.actions import PASSING
from scheduler.kube.changes import Change, Malformed, Page, Resource, Seen, read_meta, read_object, read_page
from scheduler.kube.client import ANSWER_LIMIT, Client

T = TypeVar("T")

TRIES: Final = 3
PATIENCE: Final = 5.0
"""Tries and seconds for one page: a person waits for it."""

PAGE: Final = 500
"""Objects per page of a list, at most and at first; client-go's figure."""

PAGE_BYTES: Final = 2**24
"""Bytes of a page of more than one object: 500 objects of 32 KiB, which is more than ordinary pods and nodes have. While
it is read, a page takes twice its length.
"""

STEP: Final = 4
"""A limit shrinks and grows by this factor."""

LIST_LIMIT: Final = 60.0
"""Seconds for one page; the API server's own limit for a request."""

SLICE: Final = 100
"""Objects of a page handled in one turn of the event loop, so that a list does not hold up a verb."""

SLICE_BYTES: Final = 2**20
"""Bytes of a page after which a turn ends too: each is looked at three times, which takes some milliseconds."""


class Pages:
    """The pages of one kind. What is learned of their size is kept from one list to the next."""

    def __init__(self, client: Client, resource: Resource[Any]) -> None:
        self._client = client
        self._resource = resource
        self._limit = PAGE

    async def read(self, token: str = "") -> Page:
        """The page that this token of the one before tells of; without one, the first page of the newest state.

        Raises a KubeError. A page that broke off or came too late is smaller when it is asked for again. TooLong is
        raised for a single object alone, of more than `client.ANSWER_LIMIT`.
        """
        while True:
            try:
                return await self._ask(token)
            except errors.TooLong:
                if self._limit == 1:
                    raise
                self._shrink()
            except (errors.Unreachable, errors.ServerError):
                self._shrink()
                raise

    async def _ask(self, token: str) -> Page:
        path, params = self._resource.path, {**self._resource.selectors, "limit": str(self._limit)}
        if token:
            params["continue"] = token
        most = PAGE_BYTES if self._limit > 1 else ANSWER_LIMIT
        body = await self._client.request("GET", path, params=params, timeout=LIST_LIMIT, most=most)
        if STEP * len(body) <= PAGE_BYTES:
            self._limit = min(PAGE, STEP * self._limit)
        return read_page(f"GET {path}", body)

    def _shrink(self) -> None:
        self._limit = max(1, self._limit // STEP)


def slices(items: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    """All items in order, so many together as one turn of the event loop may handle."""
    turn, size = list[msgspec.Raw](), 0
    for item in items:
        turn.append(item)
        size += memoryview(item).nbytes
        if len(turn) == SLICE or size >= SLICE_BYTES:
            yield turn
            turn, size = [], 0
    if turn:
        yield turn


async def listed(client: Client, resource: Resource[T]) -> list[Change[T]]:
    """All that exists of this kind, as Seen or Malformed; nothing of an optional kind that the cluster does not know.

    Raises a KubeError when it cannot be read.
    """
    for _ in range(TRIES):
        try:
            return await _every(client, resource)
        except errors.Gone:
            continue
        except errors.NotFound:
            if resource.optional:
                return []
            raise
    raise errors.Gone(f"GET {resource.path}", "the list grows too old before its last page", status=410)


async def objects(client: Client, resource: Resource[T]) -> list[T]:
    """All objects of this kind that can be understood. Raises as `listed`."""
    return [own.object for own in await listed(client, resource) if isinstance(own, Seen)]


async def _every(client: Client, resource: Resource[T]) -> list[Change[T]]:
    pages, token, found = Pages(client, resource), "", list[Change[T]]()
    on = partial(_passes, client)
    patient = stamina.retry(on=on, attempts=TRIES, timeout=PATIENCE, wait_initial=0.1, wait_max=1.0)
    read = patient(pages.read)
    while True:
        page = await read(token)
        found += [_read(resource, raw) for raw in page.items or ()]
        if not (token := page.metadata.token):
            return found
        del page  # its items are views of its bytes, which are not held beside the next page


def _passes(client: Client, error: Exception) -> bool:
    """It may be different a moment later. An API server that never answered is not there, or not at this address."""
    return isinstance(error, PASSING) and (client.returns > 0 or not isinstance(error, errors.Unreachable))


def _read(resource: Resource[T], raw: msgspec.Raw) -> Change[T]:
    meta = read_meta(raw)
    return meta if isinstance(meta, Malformed) else read_object(resource, meta, raw)


class _Kind(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespaced: bool = False


class _Kinds(msgspec.Struct):
    resources: list[_Kind] = []


class Discovery:
    """Paths of objects, each API group asked about once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, dict[str, _Kind]] = {}

    async def path(self, version: str, kind: str, namespace: str, name: str) -> str:
        """Where this object is. version: its apiVersion. Raises SettingsError for a kind that the cluster lacks."""
        found = (await self._kinds(version)).get(kind)
        if found is None:
            raise errors.SettingsError(
                "kind", f"{version} {kind}", "this cluster has no such kind; is its definition installed?"
            )
        inside = f"/namespaces/{namespace}" if found.namespaced else ""
        return f"{_root(version)}{inside}/{found.name}/{name}"

    async def _kinds(self, version: str) -> dict[str, _Kind]:
        if version not in self._known:
            try:
                body = await self._client.request("GET", _root(version))
                found = msgspec.json.decode(body, type=_Kinds)
            except errors.NotFound:
                found = _Kinds()
            except msgspec.MsgspecError as error:
                raise errors.Garbled(f"GET {_root(version)}", str(error)) from error
            self._known[version] = {own.kind: own for own in found.resources if "/" not in own.name}
        return self._known[version]


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
