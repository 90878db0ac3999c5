"""The pods whose demand depends on claims: of volumes, and of devices.

Lives here: `ClaimingPods`, which translates each of them again when its claims change. Never here: what a claim requires
(`volumes`, `device_claims`), or pods without claims once they were translated.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.model.cluster import Level
from scheduler.model.events import PodSeen
from scheduler.model.workload import Phase, Pod, Uid
from scheduler.objects import api, pods
from scheduler.objects.device_claims import NO_DEVICES, Asked, DeviceClaims
from scheduler.objects.interner import Interner
from scheduler.objects.pod_demand import claims_of
from scheduler.objects.volumes import ClaimKey, Volumes

ENDED: Final = frozenset(phase.value for phase in Phase if phase.ended)


class _Kept(NamedTuple):
    """A pod as read, and as last reported.  found: None: it has a node and its volumes, so only its devices change."""

    found: api.Pod | None
    reported: Pod


class ClaimingPods:
    """The pods with claims, as far as seen. Its owner updates the volumes and the devices."""

    def __init__(self, levels: tuple[Level, ...], interner: Interner) -> None:
        self._levels = levels
        self._interner = interner
        self.volumes = Volumes()
        """The storage behind claims."""
        self.devices = DeviceClaims()
        """The device claims of pods."""
        self._kept: dict[Uid, _Kept] = {}
        self._claiming: dict[ClaimKey, dict[Uid, None]] = {}
        """By claim of a volume, the pods that depend on it."""
        self._claims: dict[Uid, list[ClaimKey]] = {}
        self._users: dict[ClaimKey, set[Uid]] = {}
        """By claim of a volume, all pods that use it and have not ended."""
        self._used: dict[Uid, list[ClaimKey]] = {}

    def see(self, found: api.Pod) -> tuple[Pod, list[ClaimKey]]:
        """The pod. Also returns the claims that several pods share now, or no longer."""
        uid, claims = Uid(found.metadata.uid), claims_of(found)
        changed = self._count(uid, [] if found.status.phase in ENDED else claims)
        self._use(uid, [] if self._is_final(found) else claims)
        pod = self._translated(found)
        self._keep(found, pod)
        return pod, changed

    def lose(self, uid: Uid) -> list[ClaimKey]:
        """The pod no longer exists. Returns the claims that several pods no longer share."""
        self._kept.pop(uid, None)
        self.devices.lose_pod(uid)
        self._use(uid, [])
        return self._count(uid, [])

    def again(self, claims: Iterable[ClaimKey]) -> Iterator[PodSeen]:
        """Translate the pods again that depend on these claims of volumes. Equal results are no events."""
        for uid in sorted({uid for claim in claims for uid in self._claiming.get(claim, ())}):
            found, before = self._kept[uid]
            if found is None:
                continue
            if self._is_final(found):
                self._use(uid, [])
            pod = self._translated(found)
            self._keep(found, pod)
            if pod != before:
                yield PodSeen(pod)

    def renewed(self, uid: Uid) -> Iterator[PodSeen]:
        """The pod with what its device claims add to its demand now. An equal result is no event."""
        kept, change = self._kept.get(uid), self.devices.renewed(uid)
        if kept is None or change is None:
            return
        found, before = kept
        pod = pods.recounted(before, *change, self._interner) if found is None else self._translated(found)
        self._kept[uid] = _Kept(found, pod)
        if pod != before:
            yield PodSeen(pod)

    def _translated(self, found: api.Pod) -> Pod:
        return pods.pod(found, self.volumes, self._levels, self._interner, self._asked(found))

    def _asked(self, found: api.Pod) -> Asked:
        """What the pod's device claims add to its demand. From now on their changes are followed, until it ends."""
        if found.status.phase in ENDED:
            self.devices.lose_pod(Uid(found.metadata.uid))
            return NO_DEVICES
        return self.devices.see_pod(found, pods.place(found) if found.spec.resource_claims else "")

    def _keep(self, found: api.Pod, pod: Pod) -> None:
        if pod.uid in self._claims:
            self._kept[pod.uid] = _Kept(found, pod)
        elif found.spec.resource_claims and not pod.phase.ended:
            # A pod of the model needs less memory.
            self._kept[pod.uid] = _Kept(found if pod.node is None else None, pod)
        else:
            self._kept.pop(pod.uid, None)

    def _is_final(self, found: api.Pod) -> bool:
        """Storage no longer changes what the pod requires: it ended, or it has a node and all of its volumes."""
        ended = found.status.phase in ENDED
        return ended or (bool(found.spec.node_name) and all(map(self.volumes.is_settled, claims_of(found))))

    def _use(self, uid: Uid, claims: list[ClaimKey]) -> None:
        """The pod depends on these claims alone."""
        for claim in self._claims.pop(uid, []):
            self._claiming[claim].pop(uid, None)
            if not self._claiming[claim]:
                del self._claiming[claim]
        if claims:
            self._claims[uid] = claims
        for claim in claims:
            self._claiming.setdefault(claim, {})[uid] = None

    def _count(self, uid: Uid, claims: list[ClaimKey]) -> list[ClaimKey]:
        """The pod, which has not ended, uses these claims. Returns those that several pods share now, or no longer."""
        before = self._used.pop(uid, [])
        if claims:
            self._used[uid] = claims
        changed = []
        for claim in dict.fromkeys((*before, *claims)):
            users = self._users.setdefault(claim, set())
            (users.add if claim in claims else users.discard)(uid)
            if self.volumes.share(claim, shared=len(users) > 1):
                changed.append(claim)
            if not users:
                del self._users[claim]
        return changed
