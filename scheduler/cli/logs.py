"""`gangwright logs`: the logs of all members of a gang in one stream, each line with its worker's name.

Lives here: a task per member, one line at a time, and how far each log was read. Never here: the content. With -f,
later members are followed too, and a stream that ends before its container is reopened. The command ends when all
members have finished, or the ElasticJob has.

`sinceTime` has a resolution of one second, so a reopened stream starts with lines of the last second. The time that the
kubelet puts before each line, and the lines already shown, tell which lines to skip.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

import msgspec
import typer
from rich.text import Text

from scheduler import errors
from scheduler.cli import screen
from scheduler.cli.gang_watch import GangWatch, is_member, is_of, pods_in
from scheduler.cli.options import NO, OK, Context, GangName, Kubeconfig, Namespace, Reach, duration_of, split
from scheduler.elastic.controller.requests import JOBS, inside
from scheduler.kube.actions import PASSING
from scheduler.kube.client import Client
from scheduler.kube.listing import objects
from scheduler.model.workload import GangKey
from scheduler.objects import api

Moment: TypeAlias = tuple[datetime, str]
"""A time in whole seconds, and its fraction as digits: nanoseconds, which a datetime would truncate."""

STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ")


@dataclass(slots=True)
class Place:
    """A position in one log. Times without a date are seconds of the event loop's clock."""

    reopens: float | None = None
    """When its ended stream may be reopened. None: it has not ended."""
    broken: bool = False
    """Whether the stream ended early."""
    opened: float | None = None
    """When it was first opened. None: never."""
    last: Moment | None = None
    """The latest time of a shown line."""
    shown: int = 0
    """Number of shown lines with that time."""
    left: int | None = None
    """How many of these are still to be repeated. None: all further lines are new."""
    again: bool = False
    """Whether the last line had been shown before."""

    def begin(self, now: float) -> None:
        """Note that the stream was opened."""
        self.opened = now if self.opened is None else self.opened
        self.left, self.again = (None if self.last is None else self.shown), False

    def further(self, now: float) -> dict[str, str]:
        """Parameters that skip lines already shown. Empty before the stream was first opened."""
        if self.last is not None:
            return {"sinceTime": self.last[0].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {} if self.opened is None else {"sinceSeconds": str(max(1, round(now - self.opened)))}

    def take(self, line: str) -> str | None:
        """The text of the line. None if it was shown before. A line without a time belongs to the line before it: it is
        the rest of a cut line, or a message of the kubelet.
        """
        moment, text = stamped(line)
        if moment is not None:
            self.again = self._came_before(moment)
            if not self.again:
                if self.last is None or moment > self.last:
                    self.last, self.shown = moment, 0
                self.shown += moment == self.last
        return None if self.again else text

    def _came_before(self, moment: Moment) -> bool:
        if self.left is None or self.last is None or moment > self.last:
            self.left = None
            return False
        if moment < self.last:
            return True
        self.left -= 1
        return self.left >= 0


def stamped(line: str) -> tuple[Moment | None, str]:
    """The time of a line, and its text."""
    found = STAMP.match(line)
    if found is None:
        return None, line
    seconds, digits, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{seconds}{zone}")
    except ValueError:
        return None, line
    return (moment, (digits or "").ljust(9, "0")), line[found.end() :]


COLORS: Final = (
    "cyan",
    "magenta",
    "green",
    "yellow",
    "blue",
    "red",
    "bright_cyan",
    "bright_magenta",
    "bright_green",
)
"""A worker's color is chosen by its name, so it is the same in every call."""

OVER: Final = frozenset({"Succeeded", "Failed"})
"""Phases of an ElasticJob that creates no more workers."""

EVERY: Final = 1.0
"""Seconds after which a stream that ended too early is reopened, and between two reads of an ElasticJob whose workers
have finished."""

SILENCE: Final = 3600.0
"""Seconds without output after which a worker's stream is reopened."""

LONGEST: Final = 2**20
"""Largest size of a line in bytes. The rest becomes another line."""


class _OutputClosedError(Exception):
    """The reader of the output has closed it."""


@dataclass(slots=True)
class Wanted:
    """The options for every member's log."""

    container: str = ""
    follow: bool = False
    tail: int | None = None
    since: float | None = None
    namespace: str = ""
    gang: str = ""

    def params(self, container: str, place: Place) -> dict[str, str]:
        since = "" if self.since is None else str(max(1, round(self.since)))
        first = {"tailLines": "" if self.tail is None else str(self.tail), "sinceSeconds": since}
        said = {
            "container": container,
            "follow": "true" if self.follow else "",
            "timestamps": "true" if self.follow else "",
            **(place.further(asyncio.get_running_loop().time()) or first),
        }
        return {name: text for name, text in said.items() if text}


@dataclass(slots=True)
class Merger:
    """The state of all members: by uid how far each log was read, and by name the logs that could not be read."""

    client: Client
    wanted: Wanted
    width: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def logs(
    gang: GangName,
    namespace: Namespace = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stream until all members have finished.")
    ] = False,
    tail: Annotated[int, typer.Option(min=-1, help="Lines of recent log per member. -1 shows all.")] = -1,
    since: Annotated[
        str, typer.Option(help="Age of the oldest lines, for example 5m. Defaults to all.")
    ] = "",
    container: Annotated[
        str, typer.Option("--container", "-c", help="Container name. Defaults to the pod's first.")
    ] = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show the logs of all members of a gang as one stream.

    Each line begins with the name of its pod. Exits with 1 if the gang is not found, or if the log of a member could
    not be read.
    """
    reach = Reach(kubeconfig, context)
    place, name = split(gang, namespace, reach)
    wanted = Wanted(
        container=container,
        follow=follow,
        tail=None if tail < 0 else tail,
        since=duration_of("--since", since) if since else None,
        namespace=place,
        gang=name,
    )
    code = OK
    with suppress(KeyboardInterrupt):
        try:
            code = asyncio.run(_run(reach, wanted))
        except* _OutputClosedError:
            code = NO
    raise typer.Exit(code)


async def _run(reach: Reach, wanted: Wanted) -> int:
    async with await reach.client(unbounded=True) as client, AsyncExitStack() as stack:
        merger, watch = Merger(client, wanted), None
        if wanted.follow:
            key = GangKey(wanted.namespace, wanted.gang)
            watch = await stack.enter_async_context(GangWatch(client, {key}))
        found = _members(wanted, watch.pods if watch else await objects(client, pods_in(wanted.namespace)))
        if not found:
            screen.note(
                f"gang {wanted.gang} not found in namespace {wanted.namespace}; for all gangs, use: gangwright list -A"
            )
            return NO
        async with asyncio.TaskGroup() as group:
            _begin(merger, found, group)
            while watch and (not all(_ended(pod) for pod in found) or await _goes_on(merger)):
                await watch.changed(EVERY)
                found = _members(wanted, watch.pods)
                _begin(merger, found, group)
        for pod, why in sorted(merger.failed.items()):
            screen.note(f"{pod}: {why}")
        return NO if merger.failed else 0


async def _goes_on(merger: Merger) -> bool:
    """Whether an ElasticJob may still create workers after all of its present ones have finished."""
    wanted = merger.wanted
    try:
        answer = await merger.client.request("GET", inside(JOBS, wanted.namespace, wanted.gang))
    except (errors.NotFound, errors.Forbidden):
        return False
    return (msgspec.json.decode(answer).get("status") or {}).get("phase") not in OVER


def _begin(merger: Merger, found: list[api.Pod], group: asyncio.TaskGroup) -> None:
    """Read the members that have started, and whose logs are not or not completely read."""
    now = asyncio.get_running_loop().time()
    merger.width = max([merger.width, *(len(pod.metadata.name) for pod in found)])
    for pod in found:
        place = merger.places.get(pod.metadata.uid)
        if place is None and pod.status.phase in {"", "Pending"}:
            if not merger.wanted.follow:
                screen.note(f"{pod.metadata.name} has not started")
        elif place is None or (_is_due(place, now) and (place.broken or _runs(pod, _container(merger, pod)))):
            place = merger.places.setdefault(pod.metadata.uid, Place())
            place.reopens = None
            group.create_task(_read(merger, pod, place))


def _is_due(place: Place, now: float) -> bool:
    return place.reopens is not None and place.reopens <= now


def _runs(pod: api.Pod, container: str) -> bool:
    """Whether the container may still write, as far as its status tells."""
    status = pod.status
    known = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    state = {own.name: own.state for own in known}.get(container)
    return not _ended(pod) and (state is None or (state.waiting is None and state.terminated is None))


def _ended(pod: api.Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


def _members(wanted: Wanted, pods: list[api.Pod]) -> list[api.Pod]:
    """The pods of the gang, in any supported format, or the pod of that name."""
    key = GangKey(wanted.namespace, wanted.gang)
    found = sorted((pod for pod in pods if is_of(pod, {key})), key=lambda pod: pod.metadata.name)
    return [pod for pod in found if is_member(pod, {key})] or found


async def _read(merger: Merger, pod: api.Pod, place: Place) -> None:
    """Read the lines of one member until its stream ends. With -f it is reopened if there may be more."""
    name = pod.metadata.name
    try:
        await _stream(merger, name, merger.wanted.params(_container(merger, pod), place), place)
    except PASSING as error:
        place.broken, place.reopens = True, _soon()
        merger.failed[name] = str(error)
    except errors.KubeError as error:
        if not (
            isinstance(error, errors.NotFound) and place.opened
        ):  # it was deleted meanwhile, and was read until then
            merger.failed[name] = str(error)
    else:
        place.broken, place.reopens = False, _soon()


def _soon() -> float:
    return asyncio.get_running_loop().time() + EVERY


async def _stream(merger: Merger, name: str, params: dict[str, str], place: Place) -> None:
    path = f"/api/v1/namespaces/{merger.wanted.namespace}/pods/{name}/log"
    async with merger.client.stream(path, params, inactivity=SILENCE) as chunks:
        merger.failed.pop(name, None)
        place.begin(asyncio.get_running_loop().time())
        async for line in lines(chunks):
            text = place.take(line) if merger.wanted.follow else line
            if text is not None:
                _show(merger, name, text)


def _container(merger: Merger, pod: api.Pod) -> str:
    """The requested container, or the one that kubectl would show: the pod's default container, or its first."""
    named = (pod.metadata.annotations or {}).get("kubectl.kubernetes.io/default-container")
    first = next((own.name for own in pod.spec.containers or ()), "")
    return merger.wanted.container or named or first


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The text of a stream by line. The last line may be incomplete."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        while len(rest) > LONGEST:
            whole.append(rest[:LONGEST])
            rest = rest[LONGEST:]
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "replace")


def _show(merger: Merger, pod: str, line: str) -> None:
    name = Text(f"{screen.printable(pod):{merger.width}} ", style=color(pod))
    try:
        screen.console().print(Text.assemble(name, screen.printable(line.expandtabs())), soft_wrap=True)
    except SystemExit:
        # This is how rich ends a program whose output is closed. In a task, asyncio would report it as an error.
        raise _OutputClosedError from None


def color(pod: str) -> str:
    """The worker's color, by its name alone."""
    return COLORS[hashlib.sha256(pod.encode()).digest()[0] % len(COLORS)]
