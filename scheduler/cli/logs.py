"""`gangwright logs`: what all members of a gang write, in one stream, each line with its worker's name.

Lives here: a task for every member, one line at a time, and how far each log was read. Never here: what is said. With -f
members that come later are followed, too, a stream that ends before its container is opened again, and the command ends
when all have ended; with an ElasticJob, when that is over.

The API server passes on whole seconds of `sinceTime`, so a stream that is opened again begins with lines of the last
second. The time that kubelet puts before each line, and the lines that were shown, tell which to leave out.
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
"""A time in whole seconds, and the digits behind them: nanoseconds, of which a datetime would drop the last."""

STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ")


@dataclass(slots=True)
class Place:
    """In one log. Times without a date are seconds of the event loop's clock."""

    reopens: float | None = None
    """When its stream, which has ended, may be opened again; None: it has not ended."""
    broken: bool = False
    """It did so before its end."""
    opened: float | None = None
    """When it was opened first; None: it never was."""
    last: Moment | None = None
    """The latest time of a line that was shown."""
    shown: int = 0
    """Lines of that time that were."""
    left: int | None = None
    """Of these, those that are still to come again; None: what comes is new."""
    again: bool = False
    """The last line had been shown before."""

    def begin(self, now: float) -> None:
        """The stream was opened."""
        self.opened = now if self.opened is None else self.opened
        self.left, self.again = (None if self.last is None else self.shown), False

    def further(self, now: float) -> dict[str, str]:
        """What to ask for, so that what was shown does not come again; nothing before it was opened."""
        if self.last is not None:
            return {"sinceTime": self.last[0].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {} if self.opened is None else {"sinceSeconds": str(max(1, round(now - self.opened)))}

    def take(self, line: str) -> str | None:
        """What the line says; None where it was shown before. What has no time goes with the line before it: it is the
        rest of one that was cut, or a word of kubelet's own.
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
    """When a line was written, and what."""
    found = STAMP.match(line)
    if found is None:
        return None, line
    seconds, digits, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{seconds}{zone}")
    except ValueError:
        return None, line
    return (moment, (digits or "").ljust(9, "0")), line[found.end() :]


COLOURS: Final = (
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
"""A worker's is chosen by its name, so it is the same at every call."""

OVER: Final = frozenset({"Succeeded", "Failed"})
"""Phases of an ElasticJob that makes no more workers."""

EVERY: Final = 1.0
"""Seconds after which a stream that ended too early is opened again, and between two looks at an ElasticJob whose workers
have ended."""

SILENCE: Final = 3600.0
"""Seconds that a worker may write nothing before its stream is opened anew."""

LONGEST: Final = 2**20
"""Bytes of a line that is kept together; what is beyond comes as another line."""


class _NobodyReadsError(Exception):
    """Whoever read the lines has gone."""


@dataclass(slots=True)
class Wanted:
    """What is asked of every member's log."""

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
    """The members that were found, by uid how far each was read, and by name whose log could not be."""

    client: Client
    wanted: Wanted
    width: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def logs(
    gang: GangName,
    namespace: Namespace = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until all members have ended.")
    ] = False,
    tail: Annotated[int, typer.Option(min=-1, help="Only so many last lines of each member; -1: all.")] = -1,
    since: Annotated[str, typer.Option(help="Only what was written since so long ago, such as 5m.")] = "",
    container: Annotated[
        str, typer.Option("--container", "-c", help="The container; by default the pod's first.")
    ] = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show the logs of all members of a gang as one stream.

    Each line begins with the name of its pod. Ends with 1 when there is no such gang, or when some member's log could
    not be read, which is said.
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
        except* _NobodyReadsError:
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
                f"no gang {wanted.gang} in namespace {wanted.namespace}; `gangwright list -A` names all"
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
    """An ElasticJob may make workers after all that there were have ended, until it is over itself."""
    wanted = merger.wanted
    try:
        answer = await merger.client.request("GET", inside(JOBS, wanted.namespace, wanted.gang))
    except (errors.NotFound, errors.Forbidden):
        return False
    return (msgspec.json.decode(answer).get("status") or {}).get("phase") not in OVER


def _begin(merger: Merger, found: list[api.Pod], group: asyncio.TaskGroup) -> None:
    """Read the members that have begun and are not read yet, or not to the end."""
    now = asyncio.get_running_loop().time()
    merger.width = max([merger.width, *(len(pod.metadata.name) for pod in found)])
    for pod in found:
        place = merger.places.get(pod.metadata.uid)
        if place is None and pod.status.phase in {"", "Pending"}:
            if not merger.wanted.follow:
                screen.note(f"{pod.metadata.name} has not begun")
        elif place is None or (_is_due(place, now) and (place.broken or _runs(pod, _container(merger, pod)))):
            place = merger.places.setdefault(pod.metadata.uid, Place())
            place.reopens = None
            group.create_task(_read(merger, pod, place))


def _is_due(place: Place, now: float) -> bool:
    return place.reopens is not None and place.reopens <= now


def _runs(pod: api.Pod, container: str) -> bool:
    """Whether the container may still write, as far as is known."""
    status = pod.status
    known = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    state = {own.name: own.state for own in known}.get(container)
    return not _ended(pod) and (state is None or (state.waiting is None and state.terminated is None))


def _ended(pod: api.Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


def _members(wanted: Wanted, pods: list[api.Pod]) -> list[api.Pod]:
    """The pods of the gang, in whichever format they say so; or the pod of that name."""
    key = GangKey(wanted.namespace, wanted.gang)
    found = sorted((pod for pod in pods if is_of(pod, {key})), key=lambda pod: pod.metadata.name)
    return [pod for pod in found if is_member(pod, {key})] or found


async def _read(merger: Merger, pod: api.Pod, place: Place) -> None:
    """The lines of one member until its stream ends; where it is followed, it is opened again if there may be more."""
    name = pod.metadata.name
    try:
        await _stream(merger, name, merger.wanted.params(_container(merger, pod), place), place)
    except PASSING as error:
        place.broken, place.reopens = True, _soon()
        merger.failed[name] = str(error)
    except errors.KubeError as error:
        if not (
            isinstance(error, errors.NotFound) and place.opened
        ):  # it has gone since, and was read until then
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
    """The container that is asked for, or that kubectl would show: the one that the pod names, or its first."""
    named = (pod.metadata.annotations or {}).get("kubectl.kubernetes.io/default-container")
    first = next((own.name for own in pod.spec.containers or ()), "")
    return merger.wanted.container or named or first


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The text of a stream line by line; the last one need not end."""
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
    name = Text(f"{screen.printable(pod):{merger.width}} ", style=colour(pod))
    try:
        screen.console().print(Text.assemble(name, screen.printable(line.expandtabs())), soft_wrap=True)
    except SystemExit:
        # So rich ends a program of which nobody reads; of a task asyncio would tell it as a fault.
        raise _NobodyReadsError from None


def colour(pod: str) -> str:
    """The worker's colour, by its name alone."""
    return COLOURS[hashlib.sha256(pod.encode()).digest()[0] % len(COLOURS)]
