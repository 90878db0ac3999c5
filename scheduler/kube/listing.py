"""A kind of object, read once: every page of its list, and no watch after it.

Lives here: what a question of a person needs, who asks and goes away. Never here: what stays up to date (`watch`).
Passing failures are tried again; a list that grew too old in the middle is begun anew.
"""

from collections.abc import AsyncIterator
from typing import Final, TypeVar

import stamina

from scheduler import errors
from scheduler.kube.actions import PASSING
from scheduler.kube.changes import Change, Malformed, Resource, read_meta, read_object, read_page
from scheduler.kube.client import Client
from scheduler.kube.watch import LIST_LIMIT, PAGE

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
    params = {**resource.selectors, "limit": str(PAGE)}
    while True:
        page = read_page(f"GET {resource.path}", await _page(client, resource.path, params))
        for raw in page.items or ():
            meta = read_meta(raw)
            yield meta if isinstance(meta, Malformed) else read_object(resource, meta, raw)
        if not page.metadata.token:
            return
        params["continue"] = page.metadata.token


@stamina.retry(on=PASSING, attempts=TRIES, timeout=PATIENCE, wait_initial=0.1, wait_max=1.0)
async def _page(client: Client, path: str, params: dict[str, str]) -> bytes:
    return await client.request("GET", path, params=params, timeout=LIST_LIMIT)
