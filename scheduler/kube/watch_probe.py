"""Whether a silent watch still delivers events: a probe, which is a second short watch, shows events that it missed.

Lives here: when and how to probe, and what a probe proves. Never here: the consequences for the watch (`watch`,
`retry_backoff`).

Why: a proxy between Gangwright and the API server may accept bytes and not forward them, because it lost the machine
behind it. It answers TCP keepalive (`client`), and missing bookmarks are noticed only after a minute. A probe is a
watch of one second from the last version that was seen. For the API server it is as cheap as any new watch, regardless
of the number of objects, and it shows all events since. Why not a list of one object and its version: that version is
the cluster's, and grows without changes of this kind. Why not Gangwright's own writes, which must come back: without
writes there would be no test, and Gangwright does not delete nodes.

An inconclusive probe ends nothing: one that is rejected, not answered, or answered by an API server that itself lags
behind. A late stream has a grace period to deliver the events that the probe saw. If it does not, the stream is opened
again where it was, without a list. A restarted API server does not know older versions and rejects the probe with 410,
as it would reject a new watch. Then one list is needed.
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
"""Seconds of a probe, the minimum of the API. The API server ends it, so that its connection can be reused."""

LOOK_LIMIT: Final = 5.0
"""Seconds of silence after which a probe counts as not answered."""

HAPPENED: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Pace(NamedTuple):
    """Times in seconds. A deaf stream is detected after both of these and a probe: 14 s, or 17 s if a dozen streams are
    silent at once and their probes wait for each other.
    """

    quiet: float = 10.0
    """Silence before a probe, and the interval between two probes. Ten silent streams cost one call per second, which
    the audit log of an API server may record.
    """
    grace: float = 3.0
    """Time in which the stream must deliver the events that a probe saw. API servers learn of a write within
    milliseconds, and within a second or two when they are busy.
    """


UNGUARDED: Final = Pace(quiet=float("inf"))
"""No probes: for a kind that scheduling does not depend on, a missing bookmark is noticed soon enough."""


class WatchProbe:
    """Probes one stream. `heard` records its events, and `keep` ends when the stream turns out to be deaf."""

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
        """Record that bytes arrived on the stream."""
        self._heard = self._clock()

    async def keep(self) -> errors.KubeError:
        """The error of the stream, as soon as it is known."""
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
        """The error of a stream that did not deliver what this probe saw; None if the probe saw nothing."""
        try:
            if await happened(self._client, self._resource, self._version()):
                return errors.Deaf(
                    f"WATCH {self._resource.path}", "the stream did not deliver a recent event"
                )
        except errors.Gone as error:
            return error
        except errors.KubeError:
            pass
        return None


@asynccontextmanager
async def kept(probe: WatchProbe) -> AsyncIterator[None]:
    """Run the probe while the body reads the stream. An error that it finds ends the body and is raised."""
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
    """Whether an event of this kind happened after this version. Raises a KubeError if that is unknown."""
    params = {**resource.selectors, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(LOOK)}
    lines = Lines()
    async with client.stream(resource.path, params, inactivity=LOOK_LIMIT) as chunks:
        async for chunk in chunks:
            if any(tells(resource, line) for line in lines.feed(chunk)):
                return True
    return False


def tells(resource: Resource[Any], line: bytes) -> bool:
    """Whether this line of a probe is an event. Raises the error of an ERROR event."""
    event = read_event(line)
    if isinstance(event, Malformed):
        return False
    if event.type == "ERROR":
        status = read_status(event.object)
        raise refusal(f"WATCH {resource.path}", status.code or 500, status)
    return event.type in HAPPENED
