"""The reflector: passes every object of a kind, and all of its changes, to a sink.

Lives here: list, watch, and recovery from every fault. Never here: a cache of objects. The sink keeps what it needs.
The reflector keeps only uid and version per object, enough to find the differences after a new list.

The rules and their reasons:
* The list is read in pages (`listing`) from the newest state, without `resourceVersion` and so without
  `resourceVersionMatch`. The API server answers `resourceVersion=0` from its cache in one piece, regardless of the
  limit, and possibly with an older state than the known one. Continue tokens keep the later pages at the same version.
* The watch continues from the last version that was seen. The end of a stream means nothing: a busy API server closes
  the watch of a slow reader without an error, several times in a burst of some thousand pods.
* Only "too old" (HTTP 410, or ERROR 410 on the stream) and a stream that can no longer be trusted lead to a new list.
  That list is compared with the known objects: those that it does not name are Gone.
* An API server that was down may come back with an etcd restored from a backup. Its version is checked before a watch
  continues: a watch from a future version is silent until that version is reached, and omits everything in between.
* Bookmarks come about once a minute, so 70 s of silence mean a dead connection. TCP keepalive detects a lost machine
  sooner (`client`), and a second request detects a proxy that forwards nothing (`watch_probe`). After such an end the
  stream continues where it was. After a deaf stream, nothing is trusted until an event arrives. A watch is requested to
  end after 4 to 8 minutes, at random, so that watches spread over API servers and do not end together.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Generic, Never, TypeVar

import msgspec

from scheduler import errors
from scheduler.clock import steady
from scheduler.kube.api_errors import read_status, refusal
from scheduler.kube.changes import (
    Change,
    Gone,
    Lines,
    Malformed,
    Meta,
    Resource,
    Seen,
    Sink,
    Synced,
    key_at,
    read_event,
    read_meta,
    read_object,
    read_page,
)
from scheduler.kube.client import Client
from scheduler.kube.listing import LIST_LIMIT, Pages, slices
from scheduler.kube.retry_backoff import STEADY, BackOff, Rule, rule_of
from scheduler.kube.watch_probe import Pace, WatchProbe, kept
from scheduler.model.sharded_dict import ShardedDict

T = TypeVar("T")

INACTIVITY = 70.0
"""Seconds of silence after which a stream is dead: a minute between bookmarks, and some margin."""

WATCH_SECONDS = (240, 480)
"""Shortest and longest requested life of a watch."""


class Known(msgspec.Struct, frozen=True, gc=False):
    """The remembered part of an object. Untracked, so that 50,000 of them do not slow down garbage collection."""

    uid: str
    version: str


class Reflector(Generic[T]):
    """Follows one kind of object and passes changes to `sink`. Start it with `run`. clock: monotonic, in seconds."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        sink: Sink[T],
        *,
        clock: Callable[[], float] = steady,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Random | None = None,
        inactivity: float = INACTIVITY,
        probe_pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> None:
        self.resource = resource
        self.synced = False
        """A list is complete, and no new one is needed since."""
        self.restarts: Counter[str] = Counter()
        """How often a stream or a list ended, by cause (`retry_backoff.RULES`)."""
        self.fault: errors.KubeError | None = None
        """Why the last stream or list ended; None while the watch is healthy."""
        self._client = client
        self._pages = Pages(client, resource)
        self._sink = sink
        self._clock = clock
        self._sleep = sleep
        self._chance = chance or Random()
        self._back_off = BackOff(self._chance)
        self._inactivity = inactivity
        self._probe_pace = probe_pace
        self._known: ShardedDict[str, Known] = ShardedDict()
        self._version = ""
        self._started = float("inf")
        self._heard = float("-inf")
        self._stands = False
        self._stood = float("-inf")
        self._doubted = False
        self._was_away = False
        self._returns = 0
        """`Client.returns` at the start of this round. A return after that ends the wait, even one during the round."""

    @property
    def count(self) -> int:
        """Number of known objects."""
        return len(self._known)

    def last_event_age(self, now: float) -> float:
        """Seconds since the API server last sent anything of this kind, including bookmarks and pages."""
        return now - self._heard

    def blind_for(self, now: float) -> float:
        """Seconds for which the state of this kind may be stale; 0 while its watch is healthy, even without events.

        Why not the time of the last event: without changes there are no events. A healthy watch is silent for at most
        `inactivity` seconds, otherwise it is ended. If it is silent for longer, this process slept.
        """
        return max(0.0, now - (self._heard + self._inactivity if self._stands else self._stood))

    async def run(self) -> Never:
        """List and watch until canceled. Errors of the API server never end it, errors of the sink do."""
        while True:
            self.fault = await self._round()
            rule = rule_of(self.fault)
            self._was_away |= rule.cause == "unreachable"
            self.restarts[rule.cause] += 1
            if self._clock() - self._started >= STEADY and not isinstance(self.fault, errors.Silent):
                self._back_off.progress()
            delay = self._back_off.delay(rule, self.fault.retry_after if self.fault else None)
            if rule.relist_after and self._back_off.ends >= rule.relist_after:
                self._version, self.synced = "", False
            if delay:
                await self._wait(delay, rule)

    async def _wait(self, delay: float, rule: Rule) -> None:
        waits = [asyncio.ensure_future(self._sleep(delay))]
        if rule.until_back:
            waits.append(asyncio.ensure_future(self._client.back(self._returns)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _round(self) -> errors.KubeError | None:
        self._started = float("inf")
        self._returns = self._client.returns
        try:
            if not self._version:
                await self._list()
            elif self._was_away:
                await self._look_back()
            self._was_away = False
            await self._watch()
        except errors.KubeError as error:
            return error
        return None

    # The list

    async def _list(self) -> None:
        unnamed = set(self._known)
        try:
            version = await self._read(unnamed)
        except (errors.NotFound, errors.Forbidden) as error:
            missing = isinstance(error, errors.NotFound)
            if self.resource.optional if missing else self.resource.dispensable:
                self._complete(unnamed)
            raise
        self._complete(unnamed)
        self._version = version

    async def _read(self, unnamed: set[str]) -> str:
        version = token = ""
        while True:
            page = await self._pages.read(token)
            self._heard = self._clock()
            version, token = version or page.metadata.version, page.metadata.token
            await self._take_page(page.items or (), unnamed)
            if not token:
                return version
            del page  # its items are views of its bytes, which must not be held next to the next page

    async def _take_page(self, items: Sequence[msgspec.Raw], unnamed: set[str]) -> None:
        await asyncio.sleep(0)  # decoding the page was a turn
        for turn in slices(items):
            self._tell([change for raw in turn for change in self._listed(raw, unnamed)])
            await asyncio.sleep(0)

    def _listed(self, raw: msgspec.Raw, unnamed: set[str]) -> Iterator[Change[T]]:
        meta = read_meta(raw)
        if isinstance(meta, Malformed):
            yield meta
        else:
            unnamed.discard(meta.place)
            yield from self._see(meta, raw)

    def _complete(self, unnamed: set[str]) -> None:
        gone: list[Change[T]] = [Gone(key_at(place), self._known.pop(place).uid) for place in sorted(unnamed)]
        self.synced, self._doubted = True, False
        self._stood = self._clock()
        self._tell([*gone, Synced(len(self._known))])

    async def _look_back(self) -> None:
        """Raise Gone if the API server came back with an older version than the known one: its etcd was restored."""
        call, params = f"GET {self.resource.path}", {**self.resource.selectors, "limit": "1"}
        body = await self._client.request("GET", self.resource.path, params=params, timeout=LIST_LIMIT)
        version = read_page(call, body).metadata.version
        if version.isdigit() and self._version.isdigit() and int(version) < int(self._version):
            raise errors.Gone(
                call, f"version {version} is older than the known version {self._version}", status=410
            )

    # The watch

    async def _watch(self) -> None:
        """Follow the stream to its end. Raises Silent and the errors that the server sends."""
        params = {
            **self.resource.selectors,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._chance.randint(*WATCH_SECONDS)),
        }
        stream = self._client.stream(self.resource.path, params, inactivity=self._inactivity)
        async with stream as chunks:
            self._started = self._heard = self._clock()
            self.fault, self._stands = None, not self._doubted
            try:
                await self._listen(chunks)
            except errors.Deaf:
                self._ended(self._heard)
                self._doubted = True
                raise
            except errors.Silent:
                raise
            except errors.Unreachable:
                return  # a broken stream is treated like a closed one
            finally:
                self._ended(min(self._clock(), self._heard + self._inactivity))

    def _ended(self, stood: float) -> None:
        """The stream ended; it was healthy until `stood`. A doubted stream never was."""
        if self._stands:
            self._stands, self._stood = False, stood

    async def _listen(self, chunks: AsyncIterator[bytes]) -> None:
        """Take all events until the stream ends."""
        lines = Lines()
        probe = WatchProbe(self._client, self.resource, lambda: self._version, self._probe_pace)
        async with kept(probe):
            async for chunk in chunks:
                probe.heard()
                self._heard, self._stands, self._doubted = self._clock(), True, False
                self._take(lines.feed(chunk))

    def _take(self, lines: Sequence[bytes]) -> None:
        """Pass all these events to the sink at once. Then raise the error of an ERROR event among them."""
        changes: list[Change[T]] = []
        before = self._version
        try:
            for line in lines:
                changes.extend(self._happened(line))
        except errors.KubeError:
            self._tell(changes)
            raise
        if self._version != before:
            self._back_off.progress()
        self._tell(changes)

    def _happened(self, line: bytes) -> Iterator[Change[T]]:
        event = read_event(line)
        call = f"WATCH {self.resource.path}"
        if isinstance(event, Malformed):
            yield event
            raise errors.Garbled(call, event.message)
        if event.type == "ERROR":
            status = read_status(event.object)
            raise refusal(call, status.code or 500, status)
        meta = read_meta(event.object)
        if isinstance(meta, Malformed):
            yield meta
            return
        if event.type in {"ADDED", "MODIFIED"}:
            yield from self._see(meta, event.object)
        elif event.type == "DELETED":
            yield self._leave(meta, event.object)
        # Only the version counts of a BOOKMARK, and of event types that later API versions may add.
        self._version = meta.version or self._version

    # What is known

    def _see(self, meta: Meta, raw: msgspec.Raw) -> Iterator[Change[T]]:
        if not meta.name:
            yield Malformed(None, meta.uid, "the object has no metadata.name")
            return
        place, now = meta.place, Known(meta.uid, meta.version)
        before = self._known.get(place)
        if before == now:
            return
        if before is not None and before.uid != now.uid:
            yield Gone(meta.key, before.uid)  # another object took the name while no watch was open
        self._known[place] = now
        yield read_object(self.resource, meta, raw)

    def _leave(self, meta: Meta, raw: msgspec.Raw) -> Change[T]:
        known = self._known.get(meta.place)
        if known is not None and known.uid == meta.uid:
            del self._known[meta.place]
        last = read_object(self.resource, meta, raw)
        return Gone(meta.key, meta.uid, last.object if isinstance(last, Seen) else None)

    def _tell(self, changes: Sequence[Change[T]]) -> None:
        if changes:
            self._sink(changes)


class Freshness:
    """Whether the cache is current: the API server answers, and every watch that scheduling depends on is healthy.

    Why not only the API server's answers: a read of the Lease succeeds while one kind is rejected, throttled or too
    large to be read in time, and the state of that kind then becomes stale. watches: those that scheduling depends on,
    by name.
    """

    def __init__(self, client: Client, watches: Mapping[str, Reflector[Any]]) -> None:
        self._client = client
        self._watches = dict(watches)

    def blind_for(self, now: float) -> float:
        """Seconds for which the cache may be stale."""
        return max(self._quiet(now), *(watch.blind_for(now) for watch in self._watches.values()))

    def told(self, now: float) -> str:
        """A text about the part that has been stale the longest."""
        quiet = self._quiet(now)
        name, worst = max(self._watches.items(), key=lambda row: row[1].blind_for(now))
        blind = worst.blind_for(now)
        why = f": {worst.fault}" if worst.fault is not None else ""
        if blind <= quiet:
            return answered(quiet) + why
        if math.isinf(blind):
            return f"the watch of {name} has not begun yet{why}"
        return f"the watch of {name} has been down for {blind:.0f} s{why}"

    def stands(self, now: float) -> bool:
        """Every watch is synced and healthy: objects that are not known do not exist."""
        return all(watch.synced and not watch.blind_for(now) for watch in self._watches.values())

    def blind(self, now: float, after: float) -> dict[str, str]:
        """The watches that have been down for `after` seconds, by name, and why. The text stays the same meanwhile."""
        return {
            name: f"The watch of {name} is down{f' ({watch.fault})' if watch.fault else ''}"
            for name, watch in self._watches.items()
            if watch.blind_for(now) > after
        }

    def _quiet(self, now: float) -> float:
        return now - self._client.last_answer


def answered(quiet: float) -> str:
    """A text about the API server's last answer. `quiet`: seconds since then, infinite if there was none."""
    if math.isinf(quiet):
        return "the API server has not answered yet"
    return f"the API server last answered {quiet:.0f} s ago"
