"""The cluster as a client of the bench's own sees it, shown to the accountant after every change."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from bench.chaos.accounts import Accountant
from bench.chaos.jobs import JOBS, TROUBLE
from bench.load.cluster import say
from bench.plane import Client, NeverCameError, watches, where

PATHS: Final = (where("pods"), where("nodes"), JOBS)

LISTED: Final = 2.0
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
        seen = (self.pods, self.nodes, self.jobs)
        return [*map(self._follow, PATHS, seen), self._list()]

    async def until(self, holds: Callable[[], object], within: float, otherwise: str) -> None:
        """Raises NeverCameError, which says what is otherwise."""
        try:
            async with asyncio.timeout(within):
                while not holds():
                    await self._news.wait()
        except TimeoutError:
            raise NeverCameError(f"{otherwise} within {within:g} s") from None

    async def next_bind(self, within: float) -> float:
        """When a pod was seen bound that the API server does not say is bound now. Raises NeverCameError."""
        pods = await self._api.items(PATHS[0])
        known = self._accountant.bound.keys() | {
            pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName")
        }
        await self.until(lambda: self._accountant.bound.keys() - known, within, "no pod was bound")
        return self.times[-1]

    def note(self, kind: str, sentence: str) -> None:
        """A violation that no picture shows."""
        self._accountant.note(kind, sentence, sentence)
        self._tell()

    async def _follow(self, path: str, known: dict[str, Any]) -> None:
        """The watch brings `known` up to date as a whole before it tells what changed."""
        async for _ in watches.changes(self._api, path, known=known):
            before = len(self._accountant.bound)
            self._accountant.look(self.pods.values(), self.nodes.values(), self.jobs.values())
            if len(self._accountant.bound) > before:
                self.times.append(asyncio.get_running_loop().time())
            self._tell()
            self._news.set()
            self._news = asyncio.Event()

    async def _list(self) -> None:
        """The accountant's clock goes on from one list to the next, and stands where one is not answered."""
        now = asyncio.get_running_loop().time
        last = None
        while True:
            lists = None
            with suppress(*TROUBLE):
                async with asyncio.timeout(LISTED):
                    lists = await asyncio.gather(*map(self._api.items, PATHS))
            if lists and last:
                self._accountant.clock += now() - last
            if lists:
                self._accountant.look(*lists)
                self._tell()
            last = now() if lists else None
            await asyncio.sleep(LISTED)

    def _tell(self) -> None:
        for (kind, _), sentence in list(self._accountant.violations.items())[self._told :]:
            self._told += 1
            say(f"VIOLATION {kind}: {sentence}")
