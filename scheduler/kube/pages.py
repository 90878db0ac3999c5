"""A list, page by page, each bounded by bytes: how many objects the next page may have is learned from those before it.

Lives here: what a page is asked for with, and when that shrinks and grows. Never here: what an object means, or when a
call that failed is made again; the caller knows those.

The API server bounds a page by the number of its objects, and one pod may have a megabyte: 500 of those are half a
gigabyte, which is neither sent in time nor held. So reading stops at `PAGE_BYTES`, and the same page is asked for again
with fewer objects. Why not a watch that brings the initial objects one by one: an API server may have it switched off,
so it needs pages beside it, and it reads large pods no faster.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from scheduler import errors
from scheduler.kube.changes import Page, Resource, read_page
from scheduler.kube.client import ANSWER_LIMIT, Client

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
