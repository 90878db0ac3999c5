"""The cluster as a client of the bench's own sees it, shown to the accountant after every change."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from bench.chaos.accounts import Accountant
from bench.chaos.jobs import JOBS, TROUBLE
from bench.load.cluster import say
from tests.plane import Client, NeverCameError, watches, where

PODS: Final = where("pods")
NODES: Final = where("nodes")

TICK = 0.5
LISTED = 3.0
"""Seconds between two looks at whole lists, which need no watch."""


class Picture:
    def __init__(self, api: Client, accountant: Accountant) -> None:
        self.pods: dict[str, Any] = {}
        self.nodes: dict[str, Any] = {}
        self.jobs: dict[str, Any] = {}
        self.times: list[float] = []
        """When binds were seen, on the event loop's clock."""
        self._api, self._accountant = api, accountant
        self._news, self._told = asyncio.Event(), 0

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """What has to run beside; each goes on without end."""
        follow = [self._follow(*one) for one in ((NODES, self.nodes), (JOBS, self.jobs), (PODS, self.pods))]
        return [*follow, self._list(), self._tick()]

    async def first(self, known: set[str], within: float) -> float:
        """When a pod was bound that is not among these uids. Raises NeverCameError."""
        await self.until(lambda: self._accountant.bound.keys() - known, within, "no pod was bound")
        return self.times[-1]

    async def until(self, holds: Callable[[], object], within: float, otherwise: str) -> None:
        """Raises NeverCameError, which says what is otherwise."""
        try:
            async with asyncio.timeout(within):
                while not holds():
                    await self._news.wait()
        except TimeoutError:
            raise NeverCameError(f"{otherwise} within {within:g} s") from None

    async def bound(self) -> set[str]:
        """The uids of all pods that were ever bound, read from the API server now."""
        pods = await self._api.items(PODS)
        now = {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName")}
        return now | self._accountant.bound.keys()

    async def answers(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            async with asyncio.timeout(1):
                await self._api.get("/readyz")
        except TROUBLE:
            return False
        return True

    async def _follow(self, path: str, known: dict[str, Any]) -> None:
        """The watch brings `known` up to date as a whole before it tells what changed."""
        async for _ in watches.changes(self._api, path, known=known):
            before = len(self._accountant.bound)
            self._look(self.pods.values(), self.nodes.values(), self.jobs.values())
            if len(self._accountant.bound) > before:
                self.times.append(asyncio.get_running_loop().time())
            self._news.set()
            self._news = asyncio.Event()

    async def _list(self) -> None:
        while True:
            await asyncio.sleep(LISTED)
            with suppress(*TROUBLE):
                async with asyncio.timeout(10):
                    pods, nodes, jobs = await asyncio.gather(*map(self._api.items, (PODS, NODES, JOBS)))
                self._look(pods, nodes, jobs)

    async def _tick(self) -> None:
        """The accountant's clock stands while the API server does not answer."""
        now = asyncio.get_running_loop().time
        up, since = await self.answers(), now()
        while True:
            await asyncio.sleep(TICK)
            was, up = up, await self.answers()
            if was and up:
                self._accountant.clock += now() - since
            since = now()

    def note(self, kind: str, name: str, sentence: str) -> None:
        """A violation that no picture shows."""
        self._accountant.note(kind, name, sentence)
        self._tell()

    def _look(self, *lists: Any) -> None:
        self._accountant.look(*lists)
        self._tell()

    def _tell(self) -> None:
        for (kind, _), sentence in list(self._accountant.violations.items())[self._told :]:
            self._told += 1
            say(f"VIOLATION {kind}: {sentence}")
