"""`gangwright suspend`, `resume` and `resize`: change the owners of a gang's pods with the caller's own rights.

Lives here: which Jobs, JobSets and ElasticJobs create the pods of a gang, which of them are suspended, and the number
of workers of an elastic job. Never here: a pod.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer

from scheduler.cli import manifest_pods, screen
from scheduler.cli.options import NO, Context, GangName, Kubeconfig, Namespace, Reach, known, split
from scheduler.elastic.controller.requests import JOBS, inside
from scheduler.elastic.job.validation import policy_of
from scheduler.errors import Forbidden, KubeError, NotFound, SettingsError
from scheduler.kube.changes import Resource
from scheduler.kube.client import Client
from scheduler.kube.listing import objects
from scheduler.model.cluster import DEFAULT_LEVELS
from scheduler.objects import labels, patches
from scheduler.objects.gangs import read

KINDS: Final = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    labels.ELASTIC_KIND: f"/apis/{labels.OURS}v1alpha1/namespaces/{{}}/elasticjobs",
}
"""Kinds that can be suspended, and their paths. A Job that a JobSet owns is left to the JobSet."""

ElasticJobName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="[NAMESPACE/]JOB", help="Name of the ElasticJob.", autocompletion=known("gangs")),
]
AUTO: Final = "auto"
MOST: Final = 10_000
"""Largest number of workers of a job; the bound of `spec.workers`."""


@dataclass(frozen=True, slots=True)
class Maker:
    """A Job, JobSet or ElasticJob of the gang."""

    kind: str
    path: str
    name: str
    suspended: bool
    paused: bool
    """Whether Gangwright suspended it, and will resume it."""


def suspend(
    gang: GangName, namespace: Namespace = "", kubeconfig: Kubeconfig = "", context: Context = ""
) -> None:
    """Suspend the Jobs, JobSets and ElasticJobs of a gang.

    Its pods are deleted, and their resources become free. An ElasticJob first saves a checkpoint if its spec has one. A
    Job that Gangwright had suspended for another gang now stays suspended.

    Exits with 1 if the gang has none of these, because nothing else can be suspended.
    """
    _set(gang, namespace, Reach(kubeconfig, context), suspended=True)


def resume(
    gang: GangName, namespace: Namespace = "", kubeconfig: Kubeconfig = "", context: Context = ""
) -> None:
    """Resume the Jobs, JobSets and ElasticJobs of a gang.

    Its pods are recreated, and wait in the queue again.
    """
    _set(gang, namespace, Reach(kubeconfig, context), suspended=False)


def _set(gang: str, namespace: str, reach: Reach, *, suspended: bool) -> None:
    raise typer.Exit(asyncio.run(_all(reach, *split(gang, namespace, reach), suspended=suspended)))


async def _all(reach: Reach, namespace: str, gang: str, *, suspended: bool) -> int:
    async with await reach.client() as client:
        found = await makers(client, namespace, gang)
        if not found:
            said = f"no Job, JobSet or ElasticJob of gang {gang} found in namespace {namespace}"
            screen.note(f"{said}; other kinds can't be {'suspended' if suspended else 'resumed'}")
            return NO
        for own in found:
            screen.line(f"{own.kind.lower()}/{own.name} {await _set_one(client, own, suspended=suspended)}")
        return 0


async def _set_one(client: Client, own: Maker, *, suspended: bool) -> str:
    """Change one owner, and return the result as text."""
    word = "suspended" if suspended else "resumed"
    ours = suspended and own.paused
    if own.suspended == suspended and not ours:
        return f"already {word}"
    change: dict[str, Any] = {"spec": {"suspend": suspended}}
    if own.kind == "Job":  # Gangwright may be about to suspend it too, and would resume it
        change["metadata"] = {"annotations": {labels.STAYS: "true" if suspended else None}}
    await _patched(client, own.path, "suspend", change)
    return f"{word} (was already suspended by Gangwright; won't be resumed automatically)" if ours else word


async def sleeping(reach: Reach, namespace: str, gang: str) -> list[str]:
    """Suspended Jobs, JobSets and ElasticJobs of the gang, as KIND/NAME. Empty if they may not be listed."""
    async with await reach.client() as client:
        try:
            found = await makers(client, namespace, gang)
        except KubeError:
            return []
        return [f"{own.kind.lower()}/{own.name}" for own in found if own.suspended]


async def paused(client: Client, namespace: str = "") -> list[str]:
    """Jobs, as NAMESPACE/NAME, that Gangwright suspended for other gangs, and has not resumed yet.

    namespace: only that one; "" for all of them. Raises a KubeError if they can't be listed.
    """
    path = KINDS["Job"].format(namespace) if namespace else "/apis/batch/v1/jobs"
    return sorted(
        f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"
        for thing in await _listed(client, path)
        if _maker("Job", path, thing).paused
    )


async def makers(client: Client, namespace: str, gang: str) -> list[Maker]:
    """The owners of the pods of this gang. If no pods name it, the Job, JobSet or ElasticJob of that name.

    Kinds that may not be listed are ignored, because the API server also forbids kinds that it doesn't have. Raises
    Forbidden if nothing is found without them.
    """
    every: list[tuple[str, str, dict[str, Any]]] = []
    forbidden: list[Forbidden] = []
    for kind, path in KINDS.items():
        try:
            every += [(kind, path, own) for own in await _listed(client, path.format(namespace))]
        except Forbidden as error:
            forbidden.append(error)
    named = [own for own in every if gang in _gangs(own[0], own[2], namespace)]
    chosen = named or [own for own in every if own[2]["metadata"]["name"] == gang]
    found = [_maker(kind, path.format(namespace), own) for kind, path, own in chosen if not _is_owned(own)]
    if forbidden and not found:
        raise forbidden[0]
    return found


async def _listed(client: Client, path: str) -> list[dict[str, Any]]:
    return await objects(client, Resource(path, dict[str, Any], optional=True))


def _gangs(kind: str, thing: dict[str, Any], namespace: str) -> Iterator[str]:
    """The gangs of its pods. The pods of an ElasticJob are a gang of the same name."""
    if kind == labels.ELASTIC_KIND:
        yield str(thing["metadata"]["name"])
        return
    try:
        made = manifest_pods.templates({**thing, "kind": kind}, namespace)
    except SettingsError:  # it can never create pods
        return
    for own in made:
        meta = own.pod.get("metadata") or {}
        said = read(
            namespace, meta.get("labels") or {}, meta.get("annotations") or {}, DEFAULT_LEVELS
        ).membership
        if said is not None:
            yield said.gang.name


def _is_owned(thing: dict[str, Any]) -> bool:
    """Whether the Job has a controller that can be suspended itself, and would undo a change of the Job."""
    return any(
        own.get("controller") and own.get("kind") in KINDS
        for own in thing["metadata"].get("ownerReferences") or ()
    )


def _maker(kind: str, path: str, thing: dict[str, Any]) -> Maker:
    name, said = thing["metadata"]["name"], thing["metadata"].get("annotations") or {}
    suspended = bool((thing.get("spec") or {}).get("suspend"))
    paused = suspended and labels.PAUSED in said and labels.STAYS not in said
    return Maker(kind, f"{path}/{name}", name, suspended, paused)


def resize(
    job: ElasticJobName,
    workers: Annotated[
        str, typer.Argument(metavar="N|auto", help="Number of workers, or auto for the job's own policy.")
    ],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Set the number of workers of an ElasticJob.

    The job's own bounds apply, and it keeps training meanwhile. `auto` lets its policy decide again. Exits with 1 if
    the ElasticJob is not found.
    """
    wanted, reach = _count(workers), Reach(kubeconfig, context)
    raise typer.Exit(asyncio.run(_resize(reach, *split(job, namespace, reach), wanted)))


def _count(said: str) -> int | None:
    """None for `auto`. Raises SettingsError."""
    if said == AUTO:
        return None
    if not said.isdecimal() or int(said) > MOST:
        raise SettingsError("workers", said, f"must be a whole number up to {MOST}, or {AUTO}")
    return int(said)


async def _resize(reach: Reach, namespace: str, name: str, wanted: int | None) -> int:
    async with await reach.client() as client:
        try:
            change = {"spec": {"workers": wanted}}
            answer = await _patched(client, inside(JOBS, namespace, name), "resize", change)
        except NotFound:
            screen.note(f"ElasticJob {name} not found in namespace {namespace}")
            return NO
    screen.line(f"elasticjob/{name} {_told(msgspec.json.decode(answer), wanted)}")
    return 0


async def _patched(client: Client, path: str, command: str, change: Mapping[str, Any]) -> bytes:
    params = {"fieldManager": f"{labels.FIELD_MANAGER}-{command}"}
    body = msgspec.json.encode(change)
    return await client.request("PATCH", path, params=params, body=body, content_type=patches.MERGE)


def _told(job: dict[str, Any], wanted: int | None) -> str:
    """The result as text, with the job's bounds."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    now = status.get("workers", 0)
    if wanted is None:
        return f"is sized by its policy {policy_of(spec)}; {now} workers now"
    low, high = spec.get("minWorkers", 1), spec.get("maxWorkers", MOST)
    goal = max(low, min(high, wanted))
    bounds = "" if goal == wanted else f" (requested {wanted}; {low} to {high} are allowed)"
    return f"resizes to {goal} workers{bounds}; {now} now"
