"""The cluster as a document, read with the caller's own rights.

Lives here: one read of everything that the service watches, with the same decoding, so that an object means the same to
both. Never here: decisions (`replay`). Why not only the service: users who may read pods and nodes also get an answer
while Gangwright is down.
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
from scheduler.model.events import Event, PodSeen
from scheduler.model.policy import Policy
from scheduler.objects import api
from scheduler.objects.watched_resources import WatchedObject
from scheduler.replay import Document, document
from scheduler.service.informers import KINDS, Informers
from scheduler.settings import load

NEEDED: Final = frozenset({"nodes", "pods"})
"""Kinds that are required for an answer. Without the others it is a little less exact."""

STORAGE: Final = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses.storage.k8s.io",
        *(kind for kind in KINDS if kind.endswith(".resource.k8s.io")),
    }
)
"""Kinds that show where the claims of pods are bound or can be bound, and which devices they request."""

MADE_BY: Final = ("app.kubernetes.io/name", "gangwright")
"""The label of Gangwright's own Pods, which include kube-scheduler."""

SETTINGS: Final = "gangwright-settings"
"""The ConfigMap of the settings in manifests/. Kustomize appends a hash of the content to the name."""

UNAVAILABLE: Final = (
    f"no Pod of Gangwright is ready in {HOME}, so no gang is scheduled. See: kubectl -n {HOME} get pods"
)
UNREADY: Final = f"is the leader but not ready, so no gang is scheduled. See: kubectl -n {HOME} get pods"
"""Why no replica schedules what is shown."""

LEASE: Final = LeaseName(HOME, "gangwright")
"""The Lease of kube-scheduler, whose holder is active."""

ELSEWHERE: Final = "leave out --offline: the status service answers without that right"


class _ConfigMap(msgspec.Struct):
    metadata: api.Meta = msgspec.field(default_factory=api.Meta)
    data: dict[str, str] = {}


CONFIG_MAPS: Final = ch.Resource(f"/api/v1/namespaces/{HOME}/configmaps", _ConfigMap)


class Reading:
    """What was read of the cluster, and the effect of additional objects."""

    def __init__(self, chosen: Policy, now: float) -> None:
        self.policy = chosen
        self._now = now
        self._events: list[Event] = []
        self._intake = Informers(chosen.levels, lambda events: self._events.extend(events), lambda: None)
        self._watches = self._intake.watches()
        self.own: list[api.Pod] = []
        """The Pods of Gangwright."""
        self.leader = ""
        """The name of the leading Pod; empty if unknown."""
        self._kinds = {resource.type: name for name, (resource, _) in self._watches.items()}

    @property
    def kinds(self) -> dict[str, ch.Resource[Any]]:
        """The kinds that are read, by name."""
        return {name: resource for name, (resource, _) in self._watches.items()}

    def take(self, name: str, found: Sequence[ch.Change[Any]]) -> None:
        """Add all objects of one kind."""
        self._watches[name][1]([*found, ch.Synced(len(found))])
        every = (each.object for each in found if isinstance(each, ch.Seen))
        self.own += [pod for pod in every if isinstance(pod, api.Pod) and _is_our_own(pod)]

    @property
    def away(self) -> str:
        """Why no replica is active. Empty if one is, or if no Pod is known: Gangwright may run in another way."""
        if self.own and not any(map(_is_ready, self.own)):
            return UNAVAILABLE
        leads = next((pod for pod in self.own if pod.metadata.name == self.leader), None)
        if leads is None or _is_ready(leads) or leads.metadata.deletion_timestamp:
            return ""  # a terminating leader releases its Lease
        return f"{self.leader} {UNREADY}"

    def document(self) -> Document:
        return document(self._events, self.policy, self._now, scheduler.__version__)

    def imagine(self, objects: Iterable[WatchedObject]) -> list[Event]:
        """The events that would follow if these objects existed: of each pod the last one. Raises SettingsError for an
        unreadable object.
        """
        before, self._events = self._events, []
        for number, own in enumerate(objects):
            meta = own.metadata
            meta.uid = meta.uid or f"{meta.namespace}/{meta.name}/{number}"
            key = ch.Key(meta.namespace, meta.name)
            self._watches[self._kinds[type(own)]][1]([ch.Seen(key, meta.uid, own)])
        imagined, self._events = self._events, before
        last = {event.pod.uid: event for event in imagined if isinstance(event, PodSeen)}
        return [own for own in imagined if not isinstance(own, PodSeen) or last[own.pod.uid] is own]


def _is_our_own(pod: api.Pod) -> bool:
    key, value = MADE_BY
    return pod.metadata.namespace == HOME and (pod.metadata.labels or {}).get(key) == value


def _is_ready(pod: api.Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())


def reading(reach: Reach) -> Reading:
    """The cluster as it is now. The caller may add objects. Raises GangwrightError."""
    return asyncio.run(_look(reach))


async def _look(reach: Reach) -> Reading:
    async with await reach.client() as client:
        found = await read(client, await policy(client, reach.settings))
        if found.own:
            found.leader = await _leader(client)
        return found


async def _leader(client: Client) -> str:
    """The Pod whose kube-scheduler holds the Lease. Empty if it has no holder, or may not be read."""
    try:
        lease = await read_lease(client, LEASE)
    except errors.KubeError:
        return ""
    return lease.spec.holder.rpartition("_")[0]


async def policy(client: Client, file: Path | None) -> Policy:
    """The policy of the file, or of the cluster's Gangwright. If that can't be read, the defaults, with a note.

    The caller's environment variables have no effect: they are not the service's.
    """
    if file is not None:
        return load(file, environ={}, warn=screen.note).policy
    try:
        found = await objects(client, CONFIG_MAPS)
        why = "not found"
    except (errors.NotFound, errors.Forbidden, errors.Garbled) as error:
        found, why = [], str(error.status or "unreadable")
    own = [each for each in found if _is_settings(each.metadata.name)]
    if own:
        newest = max(own, key=lambda each: each.metadata.creation_timestamp or "")
        return load(text=newest.data.get("settings.yaml", ""), environ={}, warn=screen.note).policy
    screen.note(
        f"Gangwright's settings in the cluster are unknown ({why}); defaults are assumed. Use --settings to name a file"
    )
    return Policy()


def _is_settings(name: str) -> bool:
    """Each change of the settings creates a ConfigMap with a new name beside the old ones."""
    return name == SETTINGS or name.startswith(f"{SETTINGS}-")


async def read(client: Client, chosen: Policy, only: frozenset[str] | None = None) -> Reading:
    """All objects that affect placement. Raises KubeError if nodes or pods can't be read.

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
        screen.note(f"the answer ignores kinds that you may not list: {', '.join(unread)}")
    return found


async def _listed(client: Client, name: str, resource: ch.Resource[Any]) -> list[ch.Change[Any]] | None:
    """All objects of a kind. None if it may not be read and the answer works without it."""
    try:
        return await listed(client, resource)
    except errors.Forbidden:
        if name in NEEDED:
            raise
        return None
