"""What every act stands on: the plane with Gangwright on it, a client, a console, and the claims."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

from rich.console import Console

from bench.demo.claims import Claims
from bench.demo.record import Record, recording
from bench.plane import Client, Fleet, Plane, nodes, where
from bench.plane.client import Object
from bench.plane.installation import Installation

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kwok")


@dataclass
class Stage:
    """One act after the other uses it; `cleared` leaves it empty for the next."""

    gangwright: Installation
    api: Client
    console: Console
    claims: Claims
    master: asyncio.Task[None] | None = None
    """The elastic master comes up; None: no act needs it."""

    @property
    def live(self) -> bool:
        """A picture can be drawn over itself."""
        return self.console.is_terminal

    def title(self, text: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{text}", align="left")

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=not self.live)

    @asynccontextmanager
    async def cluster(self, fleet: Fleet) -> AsyncIterator[list[Object]]:
        """These nodes, for as long as the block runs. No node of before is left, and none stays."""
        names = await nodes.create(self.api, fleet)
        try:
            yield await self.api.items(where("nodes"))
        finally:
            await nodes.delete_all(self.api)
            await asyncio.gather(*(self.api.gone(where("nodes", name=name)) for name in names))

    @asynccontextmanager
    async def namespace(self, name: str) -> AsyncIterator[Record]:
        """A namespace and its record; afterward its pods are deleted."""
        await self.api.create(where("namespaces"), {"metadata": {"name": name}})
        async with recording(self.api, name) as record:
            try:
                yield record
            finally:
                await self.clear(name)

    async def clear(self, namespace: str) -> None:
        await self.api.delete_all(where("jobs", namespace), grace=0)
        await self.api.delete_all(where("pods", namespace), grace=0)
        while await self.api.items(where("pods", namespace)):
            await asyncio.sleep(0.02)


@contextmanager
def programs(console: Console) -> Iterator[Installation]:
    """The plane and Gangwright on it, up for as long as the block runs."""
    with ExitStack() as stack:
        with console.status("etcd, kube-apiserver, kube-scheduler and kwok are starting …"):
            plane = stack.enter_context(Plane())
        with console.status("Gangwright is being installed: manifests, extender, second kube-scheduler …"):
            gangwright = stack.enter_context(Installation(plane))
        yield gangwright
