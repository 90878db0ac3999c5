"""The pods of some gangs as they are now, by one list and a watch per namespace.

Lives here: which pods belong to the gangs, and notification of changes. Never here: what callers do with them. If pods
may be listed but not watched, they are listed again every `RELIST` seconds.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self

from scheduler import errors
from scheduler.kube import changes as ch
from scheduler.kube.actions import PASSING
from scheduler.kube.client import Client
from scheduler.kube.listing import TRIES, listed
from scheduler.kube.watch import Reflector
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.model.workload import GangKey
from scheduler.objects import api
from scheduler.objects.gangs import read

RELIST: Final = 5.0
"""Seconds between two lists if a watch is rejected: ten such commands cost the API server two lists per second."""

TOGETHER: Final = 0.2
"""Seconds to collect more changes after the first one: a gang's pods start in bursts."""

BUSY: Final = (errors.TooManyRequests, errors.ServerError)
"""Errors of the first list that are retried."""


def pods_in(namespace: str) -> ch.Resource[api.Pod]:
    """The pods of a namespace."""
    return ch.Resource(f"/api/v1/namespaces/{namespace}/pods", api.Pod)


def is_member(pod: api.Pod, gangs: Collection[GangKey]) -> bool:
    """Whether the pod is a member of one of these gangs, in any supported format."""
    meta = pod.metadata
    said = read(meta.namespace, meta.labels or {}, meta.annotations or {}, DEFAULT_LEVELS).membership
    return said is not None and said.gang in gangs


def is_of(pod: api.Pod, gangs: Collection[GangKey]) -> bool:
    """Whether the pod is a member of one of these gangs, or has the name of one (a pod without a gang)."""
    return GangKey(pod.metadata.namespace, pod.metadata.name) in gangs or is_member(pod, gangs)


class GangWatch:
    """Follows the pods of these gangs. Use it as an async context manager, which starts when all pods were listed."""

    def __init__(self, client: Client, gangs: Collection[GangKey]) -> None:
        self._client = client
        self._gangs = frozenset(gangs)
        self._seen: dict[ch.Key, ch.Seen[api.Pod]] = {}
        self._listed: set[str] = set()
        """Namespaces whose pods were all listed once."""
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._fault: errors.KubeError | None = None

    @property
    def seen(self) -> list[ch.Seen[api.Pod]]:
        """The pods in the order of their names."""
        return [self._seen[key] for key in sorted(self._seen)]

    @property
    def pods(self) -> list[api.Pod]:
        """The same pods without their keys."""
        return [own.object for own in self.seen]

    async def __aenter__(self) -> Self:
        namespaces = {gang.namespace for gang in self._gangs}
        self._tasks = [asyncio.create_task(self._follow(namespace)) for namespace in sorted(namespaces)]
        try:
            while self._listed < namespaces:
                await self._news.wait()
                self._look()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def changed(self, within: float | None) -> None:
        """Return after a change since the last call, or after so many seconds. None: no limit.

        Raises KubeError if the pods may not be listed, or if the first list failed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()
                await asyncio.sleep(TOGETHER)
        self._look()

    def _look(self) -> None:
        self._news.clear()
        if self._fault is not None:
            raise self._fault
        for task in self._tasks:
            if task.done():
                task.result()

    async def _follow(self, namespace: str) -> None:
        async def rest(delay: float) -> None:
            await self._rest(namespace, reflector, delay)

        sink = partial(self._take, namespace)
        reflector: Reflector[api.Pod] = Reflector(self._client, pods_in(namespace), sink, sleep=rest)
        try:
            await reflector.run()
        finally:
            self._news.set()

    def _take(self, namespace: str, changes: Sequence[ch.Change[api.Pod]]) -> None:
        for change in changes:
            match change:
                case ch.Seen() if is_of(change.object, self._gangs):
                    self._seen[change.key] = change
                case ch.Seen() | ch.Gone() if change.key in self._seen:
                    del self._seen[change.key]
                case ch.Synced() if namespace not in self._listed:
                    self._listed.add(namespace)
                case _:
                    continue
            self._news.set()

    async def _rest(self, namespace: str, reflector: Reflector[api.Pod], delay: float) -> None:
        """Wait after an error. An error that only the user can fix is reported, unless a list is still allowed."""
        fault = reflector.fault
        if namespace not in self._listed:
            if fault is not None and not (isinstance(fault, BUSY) and reflector.restarts.total() < TRIES):
                self._tell(fault)
        elif isinstance(fault, errors.Forbidden | errors.Unauthorized | errors.NotFound):
            await self._list(namespace)
            delay = RELIST
        await asyncio.sleep(delay)

    async def _list(self, namespace: str) -> None:
        try:
            found = await listed(self._client, pods_in(namespace))
        except PASSING:
            return
        except errors.KubeError as error:
            self._tell(error)
            return
        there = {own.key for own in found if isinstance(own, ch.Seen)}
        gone = [ch.Gone[api.Pod](key, own.uid) for key, own in self._seen.items() if key not in there]
        self._take(namespace, [*found, *(own for own in gone if own.key.namespace == namespace)])

    def _tell(self, fault: errors.KubeError) -> None:
        self._fault = fault
        self._news.set()
