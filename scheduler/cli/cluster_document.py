"""The cluster as a document, read with the caller's own rights.

Lives here: one reading of what the service watches, by the same intake, so that an object means the same to both.
Never here: a judgement (`replay`). Why not ask the service alone: a person who may read pods and nodes gets an answer
while Gangwright is away, too.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import scheduler
from scheduler import errors
from scheduler.cli import screen
from scheduler.cli.options import HOME, Reach
from scheduler.clock import steady
from scheduler.kube import changes as ch
from scheduler.kube.client import Client
from scheduler.kube.lease_record import LeaseName
from scheduler.kube.lease_record import read as read_lease
from scheduler.kube.listing import listed, objects
from scheduler.model.events import Event
from scheduler.model.policy import Policy
from scheduler.objects import api
from scheduler.replay import Document, document
from scheduler.service.informers import Informers
from scheduler.settings import load

NEEDED: Final = frozenset({"nodes", "pods"})
"""Kinds without which there is no answer; the others make it a little less exact."""

STORAGE: Final = frozenset({"persistentvolumeclaims", "persistentvolumes"})
"""Kinds that tell what the claims of pods are bound to."""

MADE_BY: Final = ("app.kubernetes.io/name", "gangwright")
"""The label of our own Pods, of which kube-scheduler is a part."""

SETTINGS: Final = "gangwright-settings"
"""Where manifests/ keep the settings, and how the name begins: kustomize adds a hash of what they say."""

NOBODY: Final = (
    f"no Pod of Gangwright is ready in {HOME}, so nothing happens until one is: kubectl -n {HOME} get pods"
)
UNREADY: Final = f"leads and is not ready, so nothing happens until it is: kubectl -n {HOME} get pods"
"""Why nobody acts on what is shown."""

LEASE: Final = LeaseName(HOME, "gangwright")
"""Whose kube-scheduler holds it acts."""

ELSEWHERE: Final = "without that right the status service answers: leave out --offline"


class _ConfigMap(msgspec.Struct):
    metadata: api.Meta = msgspec.field(default_factory=api.Meta)
    data: dict[str, str] = {}


CONFIG_MAPS: Final = ch.Resource(f"/api/v1/namespaces/{HOME}/configmaps", _ConfigMap)


class Reading:
    """What was read, and what it would mean if there were more."""

    def __init__(self, chosen: Policy, now: float) -> None:
        self.policy = chosen
        self._now = now
        self._events: list[Event] = []
        self._intake = Informers(chosen.levels, lambda events: self._events.extend(events), lambda: None)
        self._watches = self._intake.watches()
        self.own: list[api.Pod] = []
        """The Pods of Gangwright itself."""
        self.leader = ""
        """Which of them leads; empty where that is not known."""
        self._kinds = {resource.type: name for name, (resource, _) in self._watches.items()}

    @property
    def kinds(self) -> dict[str, ch.Resource[Any]]:
        """By name: what is read of a cluster."""
        return {name: resource for name, (resource, _) in self._watches.items()}

    def take(self, name: str, found: Sequence[ch.Change[Any]]) -> None:
        """All that exists of one kind."""
        self._watches[name][1]([*found, ch.Synced(len(found))])
        every = (each.object for each in found if isinstance(each, ch.Seen))
        self.own += [pod for pod in every if isinstance(pod, api.Pod) and _is_our_own(pod)]

    @property
    def away(self) -> str:
        """Why nobody acts there; empty where somebody does, or no Pod of ours is known: it may run in another way."""
        if self.own and not any(map(_is_ready, self.own)):
            return NOBODY
        leads = next((pod for pod in self.own if pod.metadata.name == self.leader), None)
        if leads is None or _is_ready(leads) or leads.metadata.deletion_timestamp:
            return ""  # one that goes gives its Lease to another
        return f"{self.leader} {UNREADY}"

    def document(self) -> Document:
        return document(self._events, self.policy, self._now, scheduler.__version__)

    def imagine(self, objects: Iterable[api.ApiObject]) -> list[Event]:
        """What would follow if these were in the cluster, too. Raises SettingsError for one that cannot be read."""
        before, self._events = self._events, []
        for number, own in enumerate(objects):
            meta = own.metadata
            meta.uid = meta.uid or f"{meta.namespace}/{meta.name}/{number}"
            key = ch.Key(meta.namespace, meta.name)
            self._watches[self._kinds[type(own)]][1]([ch.Seen(key, meta.uid, own)])
        imagined, self._events = self._events, before
        return imagined


def _is_our_own(pod: api.Pod) -> bool:
    key, value = MADE_BY
    return pod.metadata.namespace == HOME and (pod.metadata.labels or {}).get(key) == value


def _is_ready(pod: api.Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())


def reading(reach: Reach) -> Reading:
    """The cluster as it is now, for those who want to add to it. Raises GangwrightError."""
    return asyncio.run(_look(reach))


async def _look(reach: Reach) -> Reading:
    async with await reach.client() as client:
        found = await read(client, await policy(client, reach.settings))
        if found.own:
            found.leader = await _leader(client)
        return found


async def _leader(client: Client) -> str:
    """The Pod whose kube-scheduler holds the Lease; empty where that is nobody's, or may not be read."""
    try:
        lease = await read_lease(client, LEASE)
    except errors.KubeError:
        return ""
    return lease.spec.holder.rpartition("_")[0]


async def policy(client: Client, file: Path | None) -> Policy:
    """The policy of the file, or of the cluster's Gangwright; the defaults where that cannot be read, which is said.

    The caller's own environment variables change none of them: they are not the service's.
    """
    if file is not None:
        return load(file, environ={}, warn=screen.note).policy
    try:
        found = await objects(client, CONFIG_MAPS)
        why = "there are none"
    except (errors.NotFound, errors.Forbidden, errors.Garbled) as error:
        found, why = [], str(error.status or "they cannot be read")
    own = [each for each in found if _is_settings(each.metadata.name)]
    if own:
        newest = max(own, key=lambda each: each.metadata.creation_timestamp or "")
        return load(text=newest.data.get("settings.yaml", ""), environ={}, warn=screen.note).policy
    screen.note(
        f"the cluster's settings of Gangwright are not known ({why}): defaults assumed, see --settings"
    )
    return Policy()


def _is_settings(name: str) -> bool:
    """A changed setting is a ConfigMap of a new name beside the old ones."""
    return name == SETTINGS or name.startswith(f"{SETTINGS}-")


async def read(client: Client, chosen: Policy, only: frozenset[str] | None = None) -> Reading:
    """Every object that decides about placement. Raises KubeError when nodes or pods cannot be read.

    only: names of the kinds that are read; None: all of them.
    """
    found = Reading(chosen, steady())
    kinds = {name: kind for name, kind in found.kinds.items() if only is None or name in only}
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(_listed(client, name, kind)) for name, kind in kinds.items()}
    except* errors.Forbidden:
        screen.note(ELSEWHERE)
        raise
    every = {name: task.result() for name, task in tasks.items()}
    for name, changes in every.items():
        found.take(name, changes or ())
    if unread := [name for name, changes in every.items() if changes is None]:
        screen.note(f"the answer does without what you may not list: {', '.join(unread)}")
    return found


async def _listed(client: Client, name: str, resource: ch.Resource[Any]) -> list[ch.Change[Any]] | None:
    """All of a kind; None where it may not be read, and there is an answer without it."""
    try:
        return await listed(client, resource)
    except errors.Forbidden:
        if name in NEEDED:
            raise
        return None
