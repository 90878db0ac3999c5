"""`gangwright ungate`: let every pod go that still waits for us, before Gangwright is taken away.

A gated pod whose gatekeeper is gone waits for ever. Take away the gate policy first, so that no new pod is
gated, then run this, then remove the Deployment. The pods go on as pods of their `schedulerName`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Final

import msgspec
import stamina
import typer
from rich.console import Console
from rich.text import Text

from scheduler import errors
from scheduler.kube.access import find_access
from scheduler.kube.actions import CALL_LIMIT, PASSING, RETRY_WITHIN, TRIES
from scheduler.kube.client import STRATEGIC_MERGE_PATCH, Client
from scheduler.objects import labels
from scheduler.telemetry import log

PAGE: Final = 500
"""Pods of one page of the list, as the API server's own clients ask for."""

AT_ONCE: Final = 16
"""Pods let go at a time, as many as Gangwright itself writes at once; see `api.concurrentWrites`."""


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] = []


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def gated(self) -> bool:
        return any(gate.name == labels.GATE for gate in self.spec.scheduling_gates)

    @property
    def place(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class _ListMeta(msgspec.Struct):
    token: str = msgspec.field(default="", name="continue")


class _Pods(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Pod] | None = None


def ungate(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Only the pods of this namespace.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="The pods of every namespace.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which pods would be let go.")] = False,
    kubeconfig: Annotated[str, typer.Option(help="How to reach the cluster; by default as kubectl.")] = "",
) -> None:
    """Remove the gate gangwright.io/planned from every pod that has it.

    Ends with 1 when pods could not be let go, and names them; it may be run again.
    """
    if everything == bool(namespace):
        raise errors.SettingsError(
            "--namespace", namespace, "name one namespace with -n, or all of them with --all"
        )
    log.configure()  # what is tried again is told on standard error, beside the failures
    count, failures = asyncio.run(_run(namespace, kubeconfig, dry_run=dry_run))
    Console().print(f"{count} pods {'would be let go' if dry_run else 'let go'}")
    if failures:
        _tell(failures)
        raise typer.Exit(1)


def _tell(failures: dict[str, errors.KubeError]) -> None:
    """Name on standard error who still waits, and why."""
    console = Console(stderr=True, soft_wrap=True)
    for place, error in sorted(failures.items()):
        console.print(Text(f"{place}: {error}"))
    console.print(Text.assemble(("gangwright:", "bold red"), f" {len(failures)} pods could not be let go"))


async def _run(namespace: str, kubeconfig: str, *, dry_run: bool) -> tuple[int, dict[str, errors.KubeError]]:
    async with Client(await find_access(kubeconfig)) as client:
        pods = await gated(client, namespace)
        if not dry_run:
            return await let_go(client, pods)
        for pod in pods:
            print(pod.place)
        return len(pods), {}


async def gated(client: Client, namespace: str = "") -> list[_Pod]:
    """Every pod that has our gate, of one namespace or of all. Raises a KubeError when they cannot be listed."""
    for _ in range(TRIES - 1):
        try:
            return [pod async for pod in _listed(client, namespace)]
        except errors.Gone:  # the list is older than what the API server remembers: list again
            continue
    return [pod async for pod in _listed(client, namespace)]


async def _listed(client: Client, namespace: str) -> AsyncIterator[_Pod]:
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    params = {"limit": str(PAGE), "fieldSelector": "spec.nodeName="}
    while True:
        page = _page(path, await _call(client, "GET", path, params))
        for pod in page.items or ():
            if pod.gated:
                yield pod
        if not page.metadata.token:
            return
        params["continue"] = page.metadata.token


def _page(path: str, body: bytes) -> _Pods:
    try:
        return msgspec.json.decode(body, type=_Pods)
    except msgspec.MsgspecError as error:
        raise errors.Garbled(f"GET {path}", str(error)) from error


async def let_go(client: Client, pods: Iterable[_Pod]) -> tuple[int, dict[str, errors.KubeError]]:
    """Remove the gate of these pods, AT_ONCE at a time; how many lost it, and why others did not, by their names."""
    waiting = iter(pods)
    count, failures = 0, dict[str, errors.KubeError]()

    async def work() -> None:
        nonlocal count
        for pod in waiting:
            try:
                freed = await _let_go(client, pod)
            except errors.KubeError as error:
                failures[pod.place] = error
            else:
                count += freed

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return count, failures


async def _let_go(client: Client, pod: _Pod) -> int:
    """1 when the pod was let go; 0 when it was gone before. Raises KubeError."""
    meta = pod.metadata
    patch = {
        "metadata": {"uid": meta.uid},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": labels.GATE}]},
    }
    try:
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"
        await _call(client, "PATCH", path, {"fieldManager": labels.FIELD_MANAGER}, patch)
    except errors.NotFound:
        return 0
    except errors.Invalid as error:
        if "metadata.uid" in str(error):  # the name is another pod's by now
            return 0
        raise
    print(pod.place)
    return 1


@stamina.retry(on=PASSING, attempts=TRIES, timeout=RETRY_WITHIN, wait_initial=0.2)
async def _call(
    client: Client, method: str, path: str, params: dict[str, str], patch: object = None
) -> bytes:
    """Call the API server, and again after a failure that may pass. Raises KubeError."""
    body = None if patch is None else msgspec.json.encode(patch)
    return await client.request(
        method, path, params=params, body=body, content_type=STRATEGIC_MERGE_PATCH, timeout=CALL_LIMIT
    )
