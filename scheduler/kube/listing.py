"""A kind of object, read once: every page of its list, and no watch after it.

Lives here: what a question of a person needs, who asks and goes away. Never here: what stays up to date (`watch`).
Passing failures are tried again; a list that grew too old in the middle is begun again.
"""

from collections.abc import AsyncIterator
from typing import Final, TypeVar

import msgspec
import stamina

from scheduler import errors
from scheduler.kube.actions import PASSING
from scheduler.kube.changes import Change, Malformed, Page, Resource, read_meta, read_object
from scheduler.kube.client import Client
from scheduler.kube.pages import Pages

T = TypeVar("T")

TRIES: Final = 3
PATIENCE: Final = 5.0
"""Tries and seconds for one page: a person waits for it."""


async def listed(client: Client, resource: Resource[T]) -> list[Change[T]]:
    """All that exists of this kind, as Seen or Malformed; nothing of an optional kind that the cluster does not know.

    Raises a KubeError when it cannot be read.
    """
    for _ in range(TRIES):
        try:
            return [change async for change in _pages(client, resource)]
        except errors.Gone:
            continue
        except errors.NotFound:
            if resource.optional:
                return []
            raise
    raise errors.Gone(f"GET {resource.path}", "the list grows too old before its last page", status=410)


async def _pages(client: Client, resource: Resource[T]) -> AsyncIterator[Change[T]]:
    pages, token = Pages(client, resource), ""
    while True:
        page = await _page(pages, token)
        for change in [_read(resource, raw) for raw in page.items or ()]:
            yield change
        if not (token := page.metadata.token):
            return
        del page  # its items are views of its bytes, which are not held beside the next page


def _read(resource: Resource[T], raw: msgspec.Raw) -> Change[T]:
    meta = read_meta(raw)
    return meta if isinstance(meta, Malformed) else read_object(resource, meta, raw)


@stamina.retry(on=PASSING, attempts=TRIES, timeout=PATIENCE, wait_initial=0.1, wait_max=1.0)
async def _page(pages: Pages, token: str) -> Page:
    return await pages.read(token)
