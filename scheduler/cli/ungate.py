"""`gangwright ungate`: let every pod go that still waits for us, before Gangwright is taken away.

A gated pod whose gatekeeper is gone waits for ever. Take away the gate policy first, so that no new pod is
gated, then run this, then remove the Deployment. The pods go on as pods of their `schedulerName`. A Job that Gangwright
suspended, and is about to resume, would wait for ever too, so it is named.
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
import stamina
import typer
from rich.console import Console
from rich.text import Text

from scheduler import errors
from scheduler.cli.jobs import paused
from scheduler.cli.options import NO, Context, Kubeconfig, Reach, a_namespace
from scheduler.kube.actions import CALL_LIMIT, PASSING, RETRY_WITHIN, TRIES
from scheduler.kube.changes import Malformed, Resource, Seen
from scheduler.kube.client import Client, send
from scheduler.kube.listing import listed
from scheduler.model.workload import PodKey, Uid
from scheduler.objects import labels, patches

AT_ONCE: Final = 16
"""Pods let go at a time, as many as Gangwright itself writes at once; see `api.concurrentWrites`."""


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Pod(msgspec.Struct):
    """Of a pod its gates alone, so that nothing else of it can be wrong."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def gated(self) -> bool:
        return any(gate.name == labels.GATE for gate in self.spec.scheduling_gates or ())


def ungate(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Only the pods of this namespace.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="The pods of every namespace.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which pods would be let go.")] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Remove Gangwright's gate from waiting pods.

    The gate is gangwright.io/planned. Run this before you uninstall Gangwright. Ends with 1 when pods could not be let
    go, and names them; it may be run again. Names the Jobs, too, that Gangwright suspended for other gangs and has
    still to resume, where they may be looked at.
    """
    if everything == bool(namespace):
        raise errors.SettingsError(
            "--namespace", namespace, "name one namespace with -n, or all of them with --all"
        )
    if namespace:
        a_namespace(namespace)
    count, failures, told = asyncio.run(_run(namespace, Reach(kubeconfig, context), dry_run=dry_run))
    Console().print(f"{count} pods {'would be let go' if dry_run else 'let go'}")
    for text in told:
        print(text, file=sys.stderr)
    if failures:
        console = Console(stderr=True, soft_wrap=True)
        for place, error in sorted(failures.items()):
            console.print(Text(f"{place}: {error}"))
        said = f" {len(failures)} pods could not be let go"
        console.print(Text.assemble(("gangwright:", "bold red"), said))
        raise typer.Exit(NO)


async def _run(
    namespace: str, reach: Reach, *, dry_run: bool
) -> tuple[int, dict[str, errors.KubeError], list[str]]:
    """How many pods were let go, why others were not, and what is to be said of Jobs."""
    async with await reach.client() as client:
        pods = await gated(client, namespace)
        if not dry_run:
            return *await let_go(client, pods), await _paused(client, namespace)
        for pod in pods:
            print(_place(pod))
        return len(pods), {}, await _paused(client, namespace)


async def _paused(client: Client, namespace: str) -> list[str]:
    """What is to be said of Jobs, a line each. They follow the pods: that they cannot be listed undoes nothing."""
    try:
        jobs = await paused(client, namespace)
    except errors.KubeError as error:
        return [f"Jobs could not be looked at: {error}; one that is suspended for another gang would stay so"]
    return [
        f"job {job} is suspended for another gang: wait until Gangwright resumes it, or say gangwright resume {job}"
        for job in jobs
    ]


async def gated(client: Client, namespace: str = "") -> list[Seen[_Pod]]:
    """Every pod that has our gate, of one namespace or of all. Raises a KubeError when they cannot be listed."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    found: list[Seen[_Pod]] = []
    for change in await listed(client, Resource(path, _Pod, field_selector="spec.nodeName=")):
        if isinstance(change, Malformed):
            which = PodKey(*change.key) if change.key is not None else "a pod without a name"
            raise errors.Garbled(f"GET {path}", f"{which}: {change.message}")
        if isinstance(change, Seen) and change.object.gated:
            found.append(change)
    return found


async def let_go(client: Client, pods: Iterable[Seen[_Pod]]) -> tuple[int, dict[str, errors.KubeError]]:
    """Remove the gate of these pods, AT_ONCE at a time; how many lost it, and why others did not, by their names."""
    waiting = iter(pods)
    count, failures = 0, dict[str, errors.KubeError]()

    async def work() -> None:
        nonlocal count
        for pod in waiting:
            try:
                freed = await _let_go(client, pod)
            except errors.KubeError as error:
                failures[_place(pod)] = error
            else:
                count += freed

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return count, failures


async def _let_go(client: Client, pod: Seen[_Pod]) -> int:
    """1 when the pod was let go; 0 when it was gone before. Raises KubeError."""
    try:
        await _send(client, patches.let_go(PodKey(*pod.key), Uid(pod.uid)))
    except errors.NotFound:
        return 0
    except errors.Invalid as error:
        if error.of_another:
            return 0
        raise
    print(_place(pod))
    return 1


def _place(pod: Seen[_Pod]) -> str:
    return str(PodKey(*pod.key))


@stamina.retry(on=PASSING, attempts=TRIES, timeout=RETRY_WITHIN, wait_initial=0.2)
async def _send(client: Client, call: patches.Call) -> None:
    """Make the call, and again after a failure that may pass. Raises KubeError."""
    await send(client, call, CALL_LIMIT)
