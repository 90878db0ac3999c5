"""`gangwright ungate`: remove the gate from all waiting pods before Gangwright is uninstalled.

Without Gangwright a gated pod stays pending. First delete the gate policy, so that no new pod is gated, then run this,
then delete the Deployment. The pods continue as pods of their `schedulerName`. A Job that Gangwright suspended would
also stay suspended, so it is reported.
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
"""Pods that are ungated at a time, the same as Gangwright's own concurrent writes; see `api.concurrentWrites`."""


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Pod(msgspec.Struct):
    """Only the gates of a pod, so that no other field can be invalid."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def gated(self) -> bool:
        return any(gate.name == labels.GATE for gate in self.spec.scheduling_gates or ())


def ungate(
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the pods.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Pods of all namespaces.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List of the pods, without changes.")] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Remove Gangwright's gate from waiting pods.

    The gate is gangwright.io/planned. Run this before you uninstall Gangwright. Exits with 1 if pods could not be
    ungated, and reports them. You may run it again. It also reports the Jobs that Gangwright suspended for other gangs
    and has not resumed yet, if you may list Jobs.
    """
    if everything == bool(namespace):
        raise errors.SettingsError(
            "--namespace", namespace, "must be set, or --all. Name one namespace with -n, or use --all"
        )
    if namespace:
        a_namespace(namespace)
    count, failures, told = asyncio.run(_run(namespace, Reach(kubeconfig, context), dry_run=dry_run))
    Console().print(f"{count} pods {'would be ungated' if dry_run else 'ungated'}")
    for text in told:
        print(text, file=sys.stderr)
    if failures:
        console = Console(stderr=True, soft_wrap=True)
        for place, error in sorted(failures.items()):
            console.print(Text(f"{place}: {error}"))
        said = f" {len(failures)} pods could not be ungated"
        console.print(Text.assemble(("gangwright:", "bold red"), said))
        raise typer.Exit(NO)


async def _run(
    namespace: str, reach: Reach, *, dry_run: bool
) -> tuple[int, dict[str, errors.KubeError], list[str]]:
    """The number of ungated pods, the errors of others, and the messages about Jobs."""
    async with await reach.client() as client:
        pods = await gated(client, namespace)
        if not dry_run:
            return *await let_go(client, pods), await _paused(client, namespace)
        for pod in pods:
            print(_place(pod))
        return len(pods), {}, await _paused(client, namespace)


async def _paused(client: Client, namespace: str) -> list[str]:
    """The messages about Jobs, one line each. They follow the pods, so a failed list of Jobs undoes nothing."""
    try:
        jobs = await paused(client, namespace)
    except errors.KubeError as error:
        return [
            f"Jobs could not be listed: {error}; a Job that is suspended for another gang would stay suspended"
        ]
    return [
        f"job {job} is suspended for another gang: wait until Gangwright resumes it, or use: gangwright resume {job}"
        for job in jobs
    ]


async def gated(client: Client, namespace: str = "") -> list[Seen[_Pod]]:
    """All pods with Gangwright's gate, of one namespace or of all. Raises a KubeError if they can't be listed."""
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
    """Remove the gate of these pods, AT_ONCE at a time. Returns their number, and the errors by pod name."""
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
    """1 if the pod was ungated, 0 if it no longer exists. Raises KubeError."""
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
    """Send the call, and retry it after a transient error. Raises KubeError."""
    await send(client, call, CALL_LIMIT)
