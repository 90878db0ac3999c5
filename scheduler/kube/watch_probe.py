"""Whether a watch on which nothing is heard still hears: a look from beside tells what it keeps to itself.

Lives here: when to look, how, and what a look proves. Never here: what follows for the watch (`watch`, `retry_backoff`).

Why: who stands between us and the API server and takes bytes without passing them on (a proxy that lost the machine
behind it) answers the kernel's questions (`client`), and bookmarks are missed after a minute only. A look is a watch
of one second from the last version that was seen. It costs an API server as little as any watch that is opened,
whatever exists of the kind, and shows what happened since. Why not a list of one object and its version: that version
is the cluster's, and grows where nothing of this kind happens. Why not our own writes, which must come back: who writes
nothing learns nothing, and the end of a node is not ours to write.

What a look cannot know ends nothing: one that is refused, or not answered, or answered by an API server that itself
lags behind. One that is behind on the stream has the grace to bring what the look saw. If it does not, a stream is
opened again from where it was, and nothing is listed. An API server that was started again knows no version of before,
and refuses the look with 410 as it would refuse a new watch: then a list is due, one in all.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from scheduler import errors
from scheduler.kube.api_errors import read_status, refusal
from scheduler.kube.changes import Lines, Malformed, Resource, read_event
from scheduler.kube.client import Client

LOOK: Final = 1
"""Seconds of a look, the least that the API knows. The API server ends it, so that its connection can be used again."""

LOOK_LIMIT: Final = 5.0
"""Seconds of silence after which a look is not answered."""

HAPPENED: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Pace(NamedTuple):
    """In seconds. What happens while a stream is deaf is known after both of these and a look: 14 s, or 17 s where a
    dozen are quiet at once and their looks wait for each other.
    """

    quiet: float = 10.0
    """Silence after which we look, and between two looks: ten streams that are quiet cost one call a second, which the
    audit log of an API server may hold.
    """
    grace: float = 3.0
    """What a look saw must have come over the stream, too: API servers learn of a write within milliseconds, and within
    a second or two when they are busy.
    """


UNGUARDED: Final = Pace(quiet=float("inf"))
"""Nobody looks: of a kind by which nothing is decided the missing bookmark tells soon enough."""


class WatchProbe:
    """Beside one stream. It is told what comes (`heard`), and `keep` ends when the stream turns out to be deaf."""

    def __init__(
        self, client: Client, resource: Resource[Any], version: Callable[[], str], pace: Pace
    ) -> None:
        self._client = client
        self._resource = resource
        self._version = version
        self._pace = pace
        self._clock = asyncio.get_running_loop().time
        self._heard = self._looked = self._clock()

    def heard(self) -> None:
        """Something came."""
        self._heard = self._clock()

    async def keep(self) -> errors.KubeError:
        """What is wrong with the stream, as soon as it is known."""
        while True:
            await asyncio.sleep(self._due() - self._clock())
            async with self._client.spare:
                began = self._clock()
                if began < self._due():
                    continue
                found = await self._look()
            if found is not None:
                await asyncio.sleep(self._pace.grace)
                if self._heard < began:
                    return found
            self._looked = self._clock()

    def _due(self) -> float:
        return max(self._heard, self._looked) + self._pace.quiet

    async def _look(self) -> errors.KubeError | None:
        """What would be wrong with a stream that brings nothing of this; None for nothing that is known."""
        try:
            if await happened(self._client, self._resource, self._version()):
                return errors.Deaf(
                    f"WATCH {self._resource.path}", "what happened was not heard on the stream"
                )
        except errors.Gone as error:
            return error
        except errors.KubeError:
            pass
        return None


@asynccontextmanager
async def kept(probe: WatchProbe) -> AsyncIterator[None]:
    """Keep it while the body reads the stream; what it finds ends the body, and is raised."""
    limit = asyncio.timeout(None)

    def end(_: object) -> None:
        with suppress(RuntimeError):  # the stream ended by itself, in the same turn of the event loop
            limit.reschedule(float("-inf"))

    keeping = asyncio.create_task(probe.keep())
    keeping.add_done_callback(end)
    try:
        async with limit:
            try:
                yield
            finally:
                keeping.remove_done_callback(end)
    except TimeoutError:
        if limit.expired():
            raise keeping.result() from None
        raise
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


async def happened(client: Client, resource: Resource[Any], version: str) -> bool:
    """Whether anything of this kind happened after this version. Raises a KubeError when that is not to be learned."""
    params = {**resource.selectors, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(LOOK)}
    lines = Lines()
    async with client.stream(resource.path, params, inactivity=LOOK_LIMIT) as chunks:
        async for chunk in chunks:
            if any(tells(resource, line) for line in lines.feed(chunk)):
                return True
    return False


def tells(resource: Resource[Any], line: bytes) -> bool:
    """Whether this line of a look says that something happened. Raises what an ERROR says."""
    event = read_event(line)
    if isinstance(event, Malformed):
        return False
    if event.type == "ERROR":
        status = read_status(event.object)
        raise refusal(f"WATCH {resource.path}", status.code or 500, status)
    return event.type in HAPPENED
