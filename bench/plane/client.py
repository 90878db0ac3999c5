"""A plain client of the API server for tests: objects are the JSON they are, paths come from `where`.

It knows nothing of the product's own client, so that a test never proves one with the other.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from bench.plane.errors import ApiError, NeverCameError
from scheduler.kube.client import Sockets

Object = dict[str, Any]

PATCHES = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}

GROUPS = {
    "apis/apps/v1": ("deployments", "replicasets", "statefulsets", "daemonsets"),
    "apis/batch/v1": ("jobs",),
    "apis/policy/v1": ("poddisruptionbudgets",),
    "apis/scheduling.k8s.io/v1": ("priorityclasses",),
    "apis/coordination.k8s.io/v1": ("leases",),
    "apis/events.k8s.io/v1": ("events",),
    "apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    "apis/apiextensions.k8s.io/v1": ("customresourcedefinitions",),
}
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}

POLL = 0.1
"""Seconds between two looks at one object: each takes the API server some 5 ms of processor time. Long waits watch
(`watches.until_one`)."""


def where(kind: str, namespace: str | None = None, name: str | None = None, part: str | None = None) -> str:
    """The path of a collection, an object or its subresource: `where("pods", "team", "a-0", "status")`.

    kind: the plural; kinds of other groups as `gangwright.io/v1alpha1/elasticjobs`.
    """
    group, _, plural = kind.rpartition("/")
    root = f"apis/{group}" if group else _GROUP_OF.get(plural, "api/v1")
    words = (root, "namespaces" if namespace else None, namespace, plural, name, part)
    return "/" + "/".join(word for word in words if word)


def key(thing: Mapping[str, Any]) -> str:
    """`namespace/name`, or the name alone for what lives in no namespace."""
    meta = thing["metadata"]
    return "/".join(word for word in (meta.get("namespace"), meta["name"]) if word)


class Client:
    """One connection pool under one identity."""

    def __init__(self, url: str, context: ssl.SSLContext) -> None:
        self.url = url
        self._context = context

    async def __aenter__(self) -> Self:
        self._sockets = Sockets()
        connector = aiohttp.TCPConnector(ssl=self._context, limit=64, socket_factory=self._sockets.make)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        self._session = aiohttp.ClientSession(self.url, connector=connector, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._sockets.close()

    async def request(
        self, method: str, path: str, *, body: Any = None, kind: str = "application/json", **query: Any
    ) -> Object:
        """Any call; raises ApiError for what is above 399. Query words that are None are left out."""
        content = None if body is None else json.dumps(body).encode()
        params = {name: str(value) for name, value in query.items() if value is not None}
        headers = {"Content-Type": kind}
        async with self._session.request(
            method, path, data=content, params=params, headers=headers
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise _refusal(answer.status, text)
            return _parsed(text)

    async def get(self, path: str) -> Object:
        return await self.request("GET", path)

    async def find(self, path: str) -> Object | None:
        """The object, or None when there is none."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def items(self, path: str, *, labels: str | None = None, fields: str | None = None) -> list[Object]:
        answer = await self.request("GET", path, labelSelector=labels, fieldSelector=fields)
        return list(answer["items"])

    async def create(self, path: str, body: Object) -> Object:
        """POSTs to the collection. Also for subresources: `where("pods", ns, name, "eviction")`."""
        return await self.request("POST", path, body=body)

    async def create_all(self, path: str, bodies: Iterable[Object], *, at_once: int = 32) -> list[Object]:
        """POSTs many, `at_once` of them together; in the given order in the answer."""
        turn = asyncio.Semaphore(at_once)

        async def one(body: Object) -> Object:
            async with turn:
                return await self.create(path, body)

        return list(await asyncio.gather(*(one(body) for body in bodies)))

    async def patch(self, path: str, body: Any, *, how: str = "strategic", **query: Any) -> Object:
        """how: a row of PATCHES; `apply` needs `fieldManager=…`."""
        return await self.request("PATCH", path, body=body, kind=PATCHES[how], **query)

    async def replace(self, path: str, body: Object) -> Object:
        return await self.request("PUT", path, body=body)

    async def delete(self, path: str, *, grace: int | None = None, propagation: str | None = None) -> None:
        """Deletes one object; one that is gone already is no error."""
        try:
            await self.request("DELETE", path, body=_options(grace, propagation))
        except ApiError as error:
            if error.status != 404:
                raise

    async def delete_all(self, path: str, *, grace: int | None = None, labels: str | None = None) -> None:
        """Deletes a whole collection in one call."""
        await self.request("DELETE", path, body=_options(grace, None), labelSelector=labels)

    async def lines(self, path: str, **query: Any) -> AsyncIterator[Object]:
        """One watch connection, event by event, until the server ends it. `watches.py` builds on it."""
        params = {name: str(value) for name, value in query.items() if value is not None}
        async with self._session.get(path, params=params | {"watch": "1"}) as answer:
            if answer.status >= 400:
                raise _refusal(answer.status, await answer.text())
            rest = b""
            async for chunk in answer.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield json.loads(line)

    async def until(self, path: str, holds: Callable[[Object], object], *, within: float = 30.0) -> Object:
        """The object at `path`, as soon as `holds(object)`. Raises NeverCameError with its last state."""
        seen: Object | None = None
        try:
            async with asyncio.timeout(within):
                while True:
                    seen = await self.find(path)
                    if seen is not None and holds(seen):
                        return seen
                    await asyncio.sleep(POLL)
        except TimeoutError:
            state = json.dumps(None if seen is None else seen.get("status", seen), indent=1)
            raise NeverCameError(
                f"{path} did not come to hold within {within:g} s; last seen: {state}"
            ) from None

    async def gone(self, path: str, *, within: float = 30.0) -> None:
        """Waits until nothing is at `path`. Raises NeverCameError."""
        try:
            async with asyncio.timeout(within):
                while await self.find(path) is not None:
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise NeverCameError(f"{path} is still there after {within:g} s") from None


def _options(grace: int | None, propagation: str | None) -> Object:
    said = {"gracePeriodSeconds": grace, "propagationPolicy": propagation}
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        **{name: value for name, value in said.items() if value is not None},
    }


def _refusal(status: int, text: str) -> ApiError:
    said = _parsed(text)
    return ApiError(status, said.get("reason", ""), said.get("message", text))


def _parsed(text: str) -> Object:
    try:
        parsed = json.loads(text)
    except ValueError:
        return {"text": text}
    return parsed if isinstance(parsed, dict) else {"value": parsed}
