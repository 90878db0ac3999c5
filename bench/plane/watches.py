"""Watches that go on: what happened in a collection, in order, and what a test waits for there.

The API server closes a watch whose reader is slow, without an error, so the end of a stream is never the end of the
story: the reader goes on from the last resource version it saw, and lists anew only when that one has expired.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.plane.client import Client, Object, key, where
from bench.plane.errors import ApiError, NeverCameError

Change = tuple[str, Object]
"""("ADDED" | "MODIFIED" | "DELETED", object)"""

GONE = 410
"""The HTTP status (and status object's code) of an expired resource version."""

PAUSE = 0.05
"""Seconds before a broken connection is opened again, for example while the API server is down."""


async def changes(
    api: Client,
    path: str,
    *,
    labels: str | None = None,
    fields: str | None = None,
    known: dict[str, Object] | None = None,
) -> AsyncIterator[Change]:
    """Endless: first every object there is, as ADDED, then every change, over broken connections and restarts.

    known: what was seen of it before; it is kept up to date, and what is gone meanwhile is told as DELETED.
    """
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    known = {} if known is None else known
    version = ""
    while True:
        try:
            if not version:
                version, found = await _listed(api, path, known, chosen)
                for change in found:
                    yield change
            async for line in api.lines(path, resourceVersion=version, allowWatchBookmarks="true", **chosen):
                thing = line["object"]
                if line["type"] == "ERROR":
                    version = "" if thing.get("code") == GONE else version
                    break
                version = thing["metadata"]["resourceVersion"]
                if line["type"] != "BOOKMARK":
                    _remember(known, line["type"], thing)
                    yield line["type"], thing
        except ApiError as error:
            if error.status != GONE and error.status < 429:
                raise
            version = "" if error.status == GONE else version
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
            pass
        await asyncio.sleep(PAUSE)


async def until(
    api: Client,
    path: str,
    holds: Callable[[list[Object]], object],
    *,
    within: float = 30.0,
    labels: str | None = None,
    fields: str | None = None,
) -> list[Object]:
    """The objects of a collection, as soon as `holds(objects)`. Raises NeverCameError with a line for each object."""
    known: dict[str, Object] = {}
    try:
        async with asyncio.timeout(within):
            known = {key(thing): thing for thing in await api.items(path, labels=labels, fields=fields)}
            if holds(list(known.values())):
                return list(known.values())
            async for _ in changes(api, path, labels=labels, fields=fields, known=known):
                if holds(list(known.values())):
                    return list(known.values())
    except TimeoutError:
        pass
    lines = "\n".join(f"  {line}" for line in map(_state, known.values()))
    raise NeverCameError(
        f"{path} did not come to hold within {within:g} s; last seen:\n{lines or '  nothing'}"
    )


async def until_one(
    api: Client, path: str, holds: Callable[[Object], object], *, within: float = 30.0
) -> Object:
    """`Client.until` for long waits: the API server tells what changes, and is not asked ten times a second.

    What holds may depend on something else as well: it is asked again and again. Raises NeverCameError with the last
    state.
    """
    collection, _, name = path.rpartition("/")
    known: dict[str, Object] = {}
    stream = changes(api, collection, fields=f"metadata.name={name}", known=known)
    following = asyncio.create_task(_follow(stream))
    try:
        async with asyncio.timeout(within):
            while not following.done():
                for thing in known.values():
                    if holds(thing):
                        return thing
                await asyncio.sleep(PAUSE)
            following.result()  # it ends by an error alone
    except TimeoutError:
        pass
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, ApiError):
            await following
    state = json.dumps([thing.get("status", thing) for thing in known.values()], indent=1)
    raise NeverCameError(f"{path} did not come to hold within {within:g} s; last seen: {state}")


@dataclass
class Binds:
    """Pods of one namespace and where they came to, as seen by a watch."""

    at: dict[str, str] = field(default_factory=dict)
    """`namespace/name` → node, in the order of binding."""
    times: dict[str, float] = field(default_factory=dict)
    """`namespace/name` → seconds of the event loop's clock at which the bind was seen."""
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def reach(self, count: int, *, within: float = 60.0) -> dict[str, str]:
        """Waits until `count` pods are bound. Raises NeverCameError."""
        try:
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(lambda: len(self.at) >= count)
        except TimeoutError:
            raise NeverCameError(f"{len(self.at)} of {count} pods were bound within {within:g} s") from None
        return dict(self.at)

    async def follow(self, stream: AsyncIterator[Change]) -> None:
        """Notes every bind of a stream of pods, for ever."""
        now = asyncio.get_running_loop().time
        async for _, pod in stream:
            node = pod["spec"].get("nodeName")
            if node and key(pod) not in self.at:
                async with self._news:
                    self.at[key(pod)], self.times[key(pod)] = node, now()
                    self._news.notify_all()


@asynccontextmanager
async def binds(api: Client, namespace: str | None = None) -> AsyncIterator[Binds]:
    """Watches binds for as long as the block runs: `async with watches.binds(api, ns) as seen: …`."""
    seen = Binds()
    task = asyncio.create_task(seen.follow(changes(api, where("pods", namespace))))
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def bound(pods: Iterable[Object]) -> dict[str, str]:
    """Pod name → node, of those that have one."""
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


async def _follow(stream: AsyncIterator[Change]) -> None:
    async for _ in stream:
        pass


async def _listed(
    api: Client, path: str, known: dict[str, Object], chosen: dict[str, Any]
) -> tuple[str, list[Change]]:
    """A fresh list, told as what changed since `known`, which it brings up to date."""
    answer = await api.request("GET", path, **chosen)
    fresh = {key(thing): thing for thing in answer["items"]}
    gone = [("DELETED", thing) for name, thing in known.items() if name not in fresh]
    come = [("MODIFIED" if name in known else "ADDED", thing) for name, thing in fresh.items()]
    known.clear()
    known.update(fresh)
    return answer["metadata"]["resourceVersion"], gone + come


def _remember(known: dict[str, Object], kind: str, thing: Object) -> None:
    if kind == "DELETED":
        known.pop(key(thing), None)
    else:
        known[key(thing)] = thing


def _state(thing: Object) -> str:
    status = thing.get("status", {})
    told = {"phase": status.get("phase"), "node": thing.get("spec", {}).get("nodeName")}
    why = [
        c.get("message")
        for c in status.get("conditions", ())
        if c.get("status") == "False" and c.get("message")
    ]
    words = [f"{name}={value}" for name, value in told.items() if value]
    return " ".join([key(thing), *words, *why])
