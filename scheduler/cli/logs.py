"""`gangwright logs`: what all members of a gang write, in one stream, each line with its worker's name.

Lives here: a task for every member, one line at a time. Never here: what is said. With -f members that come later are
followed, too, and the command ends when all have ended; with an ElasticJob, when that is over.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

import msgspec
import typer
from rich.text import Text

from scheduler import errors
from scheduler.cli import screen
from scheduler.cli.options import NO, OK, Context, GangName, Kubeconfig, Namespace, Reach, duration_of, split
from scheduler.elastic.master.calls import JOBS, inside
from scheduler.kube import changes as ch
from scheduler.kube.access import find_access
from scheduler.kube.client import Client
from scheduler.kube.listing import listed
from scheduler.model.topology import DEFAULT_LEVELS
from scheduler.objects import api
from scheduler.objects.gangs import read

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

EVERY: Final = 2.0
"""Seconds between two looks for members that came later."""

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

    def params(self, usual: str) -> dict[str, str]:
        said = {
            "container": self.container or usual,
            "follow": "true" if self.follow else "",
            "tailLines": "" if self.tail is None else str(self.tail),
            "sinceSeconds": "" if self.since is None else str(max(1, round(self.since))),
        }
        return {name: text for name, text in said.items() if text}


@dataclass(slots=True)
class Merger:
    """The members that were found, and the tasks that read them."""

    client: Client
    wanted: Wanted
    width: int = 0
    seen: set[str] = field(default_factory=set)
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
    """Show the logs of all members of a gang, merged as they come, each line with its worker's name.

    Ends with 1 when there is no such gang, or when some member's log could not be read, which is said.
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
    async with Client(await find_access(reach.kubeconfig, reach.context), connections=0) as client:
        merger = Merger(client, wanted)
        found = await _members(merger)
        if not found:
            screen.note(
                f"no gang {wanted.gang} in namespace {wanted.namespace}; `gangwright list -A` names all"
            )
            return NO
        async with asyncio.TaskGroup() as group:
            _begin(merger, found, group)
            while wanted.follow and (not all(_ended(pod) for pod in found) or await _goes_on(merger)):
                await asyncio.sleep(EVERY)
                found = await _members(merger)
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
    """Read whoever has begun and is not read yet."""
    merger.width = max([merger.width, *(len(pod.metadata.name) for pod in found)])
    for pod in found:
        if pod.metadata.uid in merger.seen:
            continue
        if pod.status.phase not in {"", "Pending"}:
            merger.seen.add(pod.metadata.uid)
            group.create_task(_read(merger, pod))
        elif not merger.wanted.follow:
            screen.note(f"{pod.metadata.name} has not begun")


def _ended(pod: api.Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


async def _members(merger: Merger) -> list[api.Pod]:
    """The pods of the gang, in whichever format they say so; or the pod of that name."""
    wanted = merger.wanted
    found = await listed(merger.client, ch.Resource(f"/api/v1/namespaces/{wanted.namespace}/pods", api.Pod))
    pods = [own.object for own in found if isinstance(own, ch.Seen)]
    members = [pod for pod in pods if _gang(pod) == wanted.gang]
    return sorted(
        members or [pod for pod in pods if pod.metadata.name == wanted.gang],
        key=lambda pod: pod.metadata.name,
    )


def _gang(pod: api.Pod) -> str | None:
    meta = pod.metadata
    said = read(meta.namespace, meta.labels or {}, meta.annotations or {}, DEFAULT_LEVELS).membership
    return said.gang.name if said is not None else None


async def _read(merger: Merger, pod: api.Pod) -> None:
    """All lines of one member; where it is followed, a stream that is silent for long is opened anew."""
    name, wanted = pod.metadata.name, merger.wanted
    while True:
        try:
            await _stream(merger, name, wanted.params(_container(pod)))
        except errors.Silent as error:
            if wanted.follow:
                # What it wrote before the silence was shown; rounded down, so that none of it comes again.
                wanted = replace(wanted, tail=None, since=SILENCE)
                continue
            merger.failed[name] = str(error)
        except errors.KubeError as error:
            merger.failed[name] = str(error)
        return


async def _stream(merger: Merger, name: str, params: dict[str, str]) -> None:
    path = f"/api/v1/namespaces/{merger.wanted.namespace}/pods/{name}/log"
    async with merger.client.stream(path, params, inactivity=SILENCE) as chunks:
        async for line in lines(chunks):
            _show(merger, name, line)


def _container(pod: api.Pod) -> str:
    """The container that kubectl would show: the one that the pod names, or its first."""
    named = (pod.metadata.annotations or {}).get("kubectl.kubernetes.io/default-container")
    return named or next((own.name for own in pod.spec.containers or ()), "")


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
