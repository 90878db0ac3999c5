"""Objects of a kind, read once: every page of their list, each bounded in bytes; and the path of one object.

Lives here: the number of objects per page, retries of transient failures of a one-time list, and kind → path. Never
here: the meaning of an object, or data that stays current (`watch`, which reads its lists through `Pages`).

The API server bounds a page by the number of its objects, and one pod may have a megabyte. 500 of those are half a
gigabyte, which can neither be sent in time nor held. So reading stops at `PAGE_BYTES`, and the same page is requested
again with fewer objects. Why not a watch that sends the initial objects one by one: an API server may have it turned
off, so pages would still be needed, and it is no faster for large pods.
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
"""Tries and seconds for one page, because a user waits for it."""

PAGE: Final = 500
"""Objects per page of a list, initially and at most. The value is client-go's."""

PAGE_BYTES: Final = 2**24
"""Maximum bytes of a page of more than one object: 500 objects of 32 KiB, more than ordinary pods and nodes have. While
it is read, a page takes twice its length.
"""

STEP: Final = 4
"""The factor by which a limit shrinks and grows."""

LIST_LIMIT: Final = 60.0
"""Seconds for one page: the API server's own limit for a request."""

SLICE: Final = 24
"""Objects of a page handled in one turn of the event loop, so that a list does not delay a call: 3 ms for pods."""

SLICE_BYTES: Final = 2**20
"""Bytes of a page after which a turn also ends: each is processed three times, which takes some milliseconds."""


class Pages:
    """The pages of one kind. The learned page size is kept from one list to the next."""

    def __init__(self, client: Client, resource: Resource[Any]) -> None:
        self._client = client
        self._resource = resource
        self._limit = PAGE

    async def read(self, token: str = "") -> Page:
        """The page for this continue token; without one, the first page of the newest state.

        Raises a KubeError. A page that broke off or timed out is smaller at the next request. TooLong is raised only
        for a single object of more than `client.ANSWER_LIMIT`.
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
    """All items in order, in groups that one turn of the event loop may handle."""
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
    """All objects of this kind, as Seen or Malformed; none for an optional kind that the cluster does not know.

    Raises a KubeError if the list cannot be read.
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
    raise errors.Gone(f"GET {resource.path}", "the list expires before its last page", status=410)


async def objects(client: Client, resource: Resource[T]) -> list[T]:
    """All readable objects of this kind. Raises like `listed`."""
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
        del page  # its items are views of its bytes, which must not be held next to the next page


def _passes(client: Client, error: Exception) -> bool:
    """Whether a retry may help. An API server that never answered does not exist at this address."""
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
    """Paths of objects. Each API group is requested once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, dict[str, _Kind]] = {}

    async def path(self, version: str, kind: str, namespace: str, name: str) -> str:
        """The path of this object. version: its apiVersion. Raises SettingsError for a kind that the cluster lacks."""
        found = (await self._kinds(version)).get(kind)
        if found is None:
            raise errors.SettingsError(
                "kind", f"{version} {kind}", "not found in this cluster; install its CustomResourceDefinition"
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
