"""`gangwright submit`: check manifests with the decoders of the service, apply them, and optionally wait.

Before an owner of pods is applied, its pods are created by a dry run of the API server. The API server accepts a Job
with any template, and a missing RuntimeClass or an exceeded quota is only visible on the Job later. Never here: what
the pods say about their gang (`submission`).
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Final

import msgspec
import typer

from scheduler import errors
from scheduler.cli import cluster_document, manifest_pods, screen
from scheduler.cli.cluster_document import Reading
from scheduler.cli.gang_watch import GangWatch
from scheduler.cli.manifest_pods import templates
from scheduler.cli.offline_answers import EVERYTHING
from scheduler.cli.options import NO, WRONG, Context, Kubeconfig, Namespace, Reach, Settings, duration_of
from scheduler.cli.status_client import MissingServiceError, StatusClient
from scheduler.cli.submission import Wish, is_of_storage, priorities, tell, wish
from scheduler.cli.template import Template, Thing
from scheduler.cli.training_runtimes import with_runtimes
from scheduler.clock import steady
from scheduler.engine import Engine
from scheduler.errors import SettingsError
from scheduler.kube import changes as ch
from scheduler.kube.client import Client
from scheduler.kube.listing import Discovery
from scheduler.ledger.gang import GangRecord
from scheduler.model.events import GroupSeen
from scheduler.model.policy import Policy
from scheduler.model.workload import GangKey, Pod, Uid
from scheduler.objects import labels, patches
from scheduler.replay import stand
from scheduler.status import gang_views

MANAGER: Final = f"{labels.FIELD_MANAGER}-submit"
"""The field manager for server-side apply."""

ENDED: Final = "ended"
"""The state of a gang whose members all ran and have finished, perhaps between two reads."""

UNMODELED: Final = (
    "the planner does not model this field, but kube-scheduler uses it for each pod; "
    "it is unknown whether every pod finds a node"
)

DONE: Final = frozenset({"bound", "running", ENDED})


def submit(
    file: Annotated[
        str, typer.Option("--filename", "-f", help='Manifests to apply ("-" for standard input).')
    ],
    namespace: Namespace = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until every gang has its nodes.")] = False,
    timeout: Annotated[
        str, typer.Option(help="Longest wait, for example 90s or 1h. 0 means no limit.")
    ] = "0",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check by the API server, without changes.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force-conflicts", help="Ownership of conflicting fields, as kubectl apply --force-conflicts."
        ),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
) -> None:
    """Check a job's manifests, then apply them.

    It reports missing and misspelled labels and annotations. If there is an error, nothing is applied. With --wait it
    exits with 1 if a gang has no nodes in time.
    """
    limit = float("inf") if timeout == "0" else duration_of("--timeout", timeout)
    reach = Reach(kubeconfig, context, settings)
    things, inside = manifest_pods.read(file), reach.namespace(namespace)
    for thing in things:
        said = thing["metadata"].get("namespace")
        if namespace and said and said != namespace:
            raise SettingsError(
                "--namespace", namespace, f"must match the namespace {said} in {file}. Leave out one of them"
            )
    policy = _policy(reach)
    work = _submit(things, inside, reach, policy, wait, limit, dry_run=dry_run, force=force)
    raise typer.Exit(asyncio.run(work))


def _policy(reach: Reach) -> Policy | None:
    """The policy of the service. None if a settings file is given, or if the service does not answer."""
    try:
        return StatusClient(reach).policy() if reach.settings is None else None
    except MissingServiceError:
        return None


async def _submit(
    things: list[Thing],
    namespace: str,
    reach: Reach,
    policy: Policy | None,
    wait: bool,
    limit: float,
    *,
    dry_run: bool,
    force: bool,
) -> int:
    async with await reach.client() as client:
        policy = policy or await cluster_document.policy(client, reach.settings)
        reading = Reading(policy, steady())
        classes = await priorities(client)
        resolved = await with_runtimes(client, things, namespace)
        found = wish(resolved, namespace, reading, classes, steady())
        if any(map(is_of_storage, found.unmodeled)):
            reading = await cluster_document.read(client, policy, cluster_document.STORAGE)
            found = wish(resolved, namespace, reading, classes, steady())
        tell(replace(found, notes=(*found.notes, *(f"{field}: {UNMODELED}" for field in found.unmodeled))))
        if found.wrong:
            screen.note("nothing was applied")
            return WRONG
        paths = await _paths(client, things, namespace)
        await _tell_refusals(client, resolved, namespace)
        made = {await _apply(client, path, thing, dry_run=dry_run, force=force) for path, thing in paths}
        if not wait or dry_run:
            return 0
        return await _wait(client, reading, found, made, limit)


async def _paths(client: Client, things: list[Thing], namespace: str) -> list[tuple[str, Thing]]:
    """The path of each object. All are found before the first one is applied."""
    discovery, paths = Discovery(client), list[tuple[str, Thing]]()
    for thing in things:
        meta = thing["metadata"]
        inside = str(meta.get("namespace") or namespace)
        path = await discovery.path(str(thing["apiVersion"]), thing["kind"], inside, meta["name"])
        paths.append((path, thing))
    return paths


async def _apply(client: Client, path: str, thing: Thing, *, dry_run: bool, force: bool) -> str:
    """Apply one object. Returns its uid."""
    params = {
        "fieldManager": MANAGER,
        **({"dryRun": "All"} if dry_run else {}),
        **({"force": "true"} if force else {}),
    }
    body, name = msgspec.json.encode(thing), f"{thing['kind'].lower()}/{thing['metadata']['name']}"
    try:
        answer = await client.request("PATCH", path, params=params, body=body, content_type=patches.APPLY)
    except errors.Invalid as refused:
        if "immutable" in str(refused):
            screen.note(
                f"{name} already exists, and the change touches immutable fields; delete it first, or use another name"
            )
        raise
    screen.line(f"{name} {'would be applied' if dry_run else 'applied'}")
    head = ch.read_meta(msgspec.Raw(answer))
    return head.uid if isinstance(head, ch.Meta) else ""


async def _wait(client: Client, reading: Reading, wanted: Wish, made: set[str], limit: float) -> int:
    """Watch the gangs until all have their nodes, and report changes. made: uids of the applied objects."""
    gangs, told = [key for key, pods in wanted.gangs.items() if wanted.is_named(pods)], dict[GangKey, str]()
    if len(gangs) < len(wanted.gangs):
        screen.note("--wait ignores pods and gangs whose names are not known yet")
    groups = [event for event in wanted.events if isinstance(event, GroupSeen)]
    until, others = steady() + limit, None
    async with GangWatch(client, gangs) as watch:
        while True:
            engine = _look(reading, watch, groups)
            others = _ended_before(engine, made) if others is None else others
            states = {gang: _state(engine, gang, others) for gang in gangs}
            for gang, state in states.items():
                if told.get(gang) != state:
                    screen.line(f"{gang}: {state}")
                    told[gang] = state
            if all(state in DONE for state in states.values()):
                return 0
            if steady() >= until:
                screen.note(f"timed out: not all gangs have nodes; see: gangwright explain {gangs[0]}")
                return NO
            await watch.changed(None if math.isinf(limit) else max(0.0, until - steady()))


def _look(reading: Reading, watch: GangWatch, groups: list[GroupSeen]) -> Engine:
    """An engine with the gangs of these pods."""
    now = Reading(reading.policy, steady())
    now.take("pods", watch.seen)
    return stand(now.document(), groups)


def _ended_before(engine: Engine, made: set[str]) -> set[Uid]:
    """Finished pods that do not belong to the applied objects: an earlier gang of the same name left them."""
    return {
        own.uid
        for own in _pods(engine.ledger.registry.gangs.values())
        if own.phase.ended and own.uid not in made and (own.owner is None or own.owner.uid not in made)
    }


def _state(engine: Engine, gang: GangKey, others: set[Uid]) -> str:
    """The state of the gang, as a word. others: pods of an earlier gang with its name."""
    record = gang_views.find(engine, *gang)
    if record is None:
        return "no pods yet"
    pods = [own for own in _pods([record]) if own.uid not in others]
    if pods and all(own.phase.ended and own.node for own in pods):
        return ENDED
    return gang_views.row(engine, record, EVERYTHING, steady()).state


def _pods(records: Iterable[GangRecord]) -> Iterator[Pod]:
    return (member.pod for record in records for member in record.members.values())


LACKS_RIGHT: Final = 'pods is forbidden: User "'
"""Prefix of the API server's error if the user may not create pods. Their controller may, so it says nothing of the
pods."""

OWN_WAY: Final = ("Pod/", "ElasticJob/")
"""Owners that are not checked: a pod is applied itself, and workers get more than their template has."""


async def _tell_refusals(client: Client, things: Sequence[Thing], namespace: str) -> None:
    """Report why the API server would reject the pods now. Skipped if the manifests first change the cluster.

    If it is unknown, that is reported for the first owner, and the others are skipped: the result is only advice.
    """
    made = [(thing, templates(thing, namespace)) for thing in things]
    if any(not found and thing["kind"] != "PodGroup" for thing, found in made):
        return
    distinct = {(own.maker, own.path): own for _, found in made for own in found if own.count}
    for own in (own for own in distinct.values() if not own.maker.startswith(OWN_WAY)):
        try:
            await _try(client, own)
        except (errors.Forbidden, errors.Invalid) as refused:
            if LACKS_RIGHT not in str(refused):
                screen.note(f"{own.maker}: its pods would be rejected: {refused}")
        except errors.NotFound:
            continue
        except errors.KubeError as error:
            screen.note(f"{own.maker}: unknown whether its pods would be rejected: {error}")
            return


async def _try(client: Client, own: Template) -> None:
    said: Thing = own.pod.get("metadata") or {}
    meta: Thing = {key: said[key] for key in ("labels", "annotations") if key in said}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "generateName": f"{own.name}-"},
        "spec": own.spec(own.names()[0]),
    }
    path = f"/api/v1/namespaces/{own.namespace}/pods"
    await client.request("POST", path, params={"dryRun": "All"}, body=msgspec.json.encode(pod))
