"""`gangwright submit`: check manifests with the readers of the service, apply them, and wait if asked to.

Before a maker of pods is applied, its pods are made by a dry run of the API server: a Job is accepted whatever its
template says, and a missing RuntimeClass or a full quota shows on the Job alone. Never here: what the pods say of their
gang (`submission`).
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
"""Whose fields server-side apply makes of what is written in the manifests."""

ENDED: Final = "ended"
"""The state of a gang whose members all ran and have ended, perhaps between two looks."""

UNMODELED: Final = (
    "the planner does not model this, and kube-scheduler decides by it, pod by pod: "
    "Gangwright cannot tell whether every pod finds a node"
)

DONE: Final = frozenset({"bound", "running", ENDED})


def submit(
    file: Annotated[str, typer.Option("--filename", "-f", help="Manifests; - reads standard input.")],
    namespace: Namespace = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until every gang has its nodes.")] = False,
    timeout: Annotated[
        str, typer.Option(help="How long to wait at most, such as 90s or 1h; 0: for ever.")
    ] = "0",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the API server check it, and keep nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force-conflicts", help="Take fields over that somebody else applied.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    settings: Settings = None,
) -> None:
    """Check a job's manifests, then apply them.

    Labels and annotations that are missing or misspelled are named. Nothing is applied while something is wrong. With
    --wait it ends with 1 when a gang has no nodes in time.
    """
    limit = float("inf") if timeout == "0" else duration_of("--timeout", timeout)
    reach = Reach(kubeconfig, context, settings)
    things, inside = manifest_pods.read(file), reach.namespace(namespace)
    for thing in things:
        said = thing["metadata"].get("namespace")
        if namespace and said and said != namespace:
            raise SettingsError(
                "--namespace", namespace, f"{file} names another, {said}; leave one of them out"
            )
    policy = _policy(reach)
    work = _submit(things, inside, reach, policy, wait, limit, dry_run=dry_run, force=force)
    raise typer.Exit(asyncio.run(work))


def _policy(reach: Reach) -> Policy | None:
    """As the service says; None where the settings are named, or it does not answer."""
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
    """Where each of them goes; all are found before the first is applied."""
    discovery, paths = Discovery(client), list[tuple[str, Thing]]()
    for thing in things:
        meta = thing["metadata"]
        inside = str(meta.get("namespace") or namespace)
        path = await discovery.path(str(thing["apiVersion"]), thing["kind"], inside, meta["name"])
        paths.append((path, thing))
    return paths


async def _apply(client: Client, path: str, thing: Thing, *, dry_run: bool, force: bool) -> str:
    """The uid of what is there now."""
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
                f"{name} is there already and cannot be changed so: delete it first, or take another name"
            )
        raise
    screen.line(f"{name} {'would be applied' if dry_run else 'applied'}")
    head = ch.read_meta(msgspec.Raw(answer))
    return head.uid if isinstance(head, ch.Meta) else ""


async def _wait(client: Client, reading: Reading, wanted: Wish, made: set[str], limit: float) -> int:
    """Look at the gangs until all have their nodes; says what changes. made: uids of what was applied."""
    gangs, told = [key for key, pods in wanted.gangs.items() if wanted.is_named(pods)], dict[GangKey, str]()
    if len(gangs) < len(wanted.gangs):
        screen.note("pods and gangs whose names are not known yet are not waited for")
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
                screen.note(f"not all have their nodes; see: gangwright explain {gangs[0]}")
                return NO
            await watch.changed(None if math.isinf(limit) else max(0.0, until - steady()))


def _look(reading: Reading, watch: GangWatch, groups: list[GroupSeen]) -> Engine:
    """The gangs as the ledger would have them, by their pods."""
    now = Reading(reading.policy, steady())
    now.take("pods", watch.seen)
    return stand(now.document(), groups)


def _ended_before(engine: Engine, made: set[str]) -> set[Uid]:
    """Pods that have ended and are not of what was applied: an earlier gang of the same name left them."""
    return {
        own.uid
        for own in _pods(engine.ledger.registry.gangs.values())
        if own.phase.ended and own.uid not in made and (own.owner is None or own.owner.uid not in made)
    }


def _state(engine: Engine, gang: GangKey, others: set[Uid]) -> str:
    """How the gang stands, in a word. others: pods of an earlier gang of its name."""
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
"""So the API server begins where the person may not make pods: their maker may, which says nothing of the pods."""

OWN_WAY: Final = ("Pod/", "ElasticJob/")
"""Makers that are not asked about: a pod is its own, and workers get more than their template has."""


async def _tell_refusals(client: Client, things: Sequence[Thing], namespace: str) -> None:
    """What the API server has against the pods as the cluster is now; nothing where the manifests change that first.

    Where it cannot tell, that is said of the first, and no other is asked about: nothing hangs on the answer.
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
                screen.note(f"{own.maker}: its pods would be refused: {refused}")
        except errors.NotFound:
            continue
        except errors.KubeError as error:
            screen.note(f"{own.maker}: not known whether its pods would be refused: {error}")
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
