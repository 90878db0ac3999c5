"""What a test needs to follow a reflector: a cache that is its sink, time that a test moves, and patience."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from scheduler.kube.changes import Change, Gone, Key, Malformed, Resource, Seen, Synced
from scheduler.kube.client import Client
from scheduler.kube.watch import Reflector
from tests.kube.support.api_server import PODS, ApiServer


class Spec(msgspec.Struct):
    node: str = ""


class Meta(msgspec.Struct):
    name: str
    uid: str
    text: str = msgspec.field(name="resourceVersion")

    @property
    def version(self) -> int:
        return int(self.text)


class Pod(msgspec.Struct):
    """A consumer's own type."""

    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)


def pods(**kwargs: Any) -> Resource[Any]:
    return Resource(PODS, Pod, **kwargs)


class Time:
    """A clock that stands still unless somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Cache:
    """A sink that keeps what it is told and fails on a story that contradicts itself."""

    pods: dict[Key, Any] = field(default_factory=dict)
    malformed: list[Malformed] = field(default_factory=list)
    batches: list[Sequence[Change[Any]]] = field(default_factory=list)
    syncs: int = 0

    def __call__(self, changes: Sequence[Change[Any]]) -> None:
        self.batches.append(changes)
        for change in changes:
            match change:
                case Seen(key=key, uid=uid, object=pod):
                    old = self.pods.get(key)
                    assert old is None or old[0] == uid, f"{key} changed its uid without being Gone"
                    self.pods[key] = (uid, pod)
                case Gone(key=key, uid=uid):
                    old = self.pods.pop(key, None)
                    assert old is None or old[0] == uid, f"the wrong {key} is Gone"
                case Malformed():
                    self.malformed.append(change)
                case Synced():
                    self.syncs += 1

    @property
    def gone(self) -> list[str]:
        return [c.key.name for batch in self.batches for c in batch if isinstance(c, Gone)]

    @property
    def seen(self) -> list[str]:
        return [c.key.name for batch in self.batches for c in batch if isinstance(c, Seen)]

    def versions(self) -> dict[Key, tuple[str, int]]:
        return {key: (uid, pod.metadata.version) for key, (uid, pod) in self.pods.items()}

    def equals(self, api: ApiServer, path: str = PODS) -> bool:
        """The cache holds what the API server holds, in the same versions."""
        truth = {
            Key(*key): (o["metadata"]["uid"], int(o["metadata"]["resourceVersion"]))
            for key, o in api.objects[path].items()
        }
        return self.versions() == truth


@asynccontextmanager
async def following(
    client: Client,
    cache: Cache,
    time: Time | None = None,
    resource: Resource[Any] | None = None,
    **kwargs: Any,
) -> AsyncIterator[Reflector[Any]]:
    """A reflector at work; an error inside it is raised at the end."""
    time = time or Time()
    reflector = Reflector(
        client, resource or pods(), cache, clock=time, sleep=time.sleep, chance=Random(7), **kwargs
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        done, _ = await asyncio.wait([task])
        for ended in done:
            if not ended.cancelled():
                ended.result()


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what must come over a real socket; fails when it does not come."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
