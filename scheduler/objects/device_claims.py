"""The device claims of pods: what a pod requests, and where each allocated device is counted.

Lives here: `DeviceClaims`, which its owner updates with the seen objects and pods. Never here: which devices exist
(`device_slices`).

Each allocated device is counted once, in every column that can use it:
* through the demand of a pod, if it is the only consumer of the claim, and the claim's devices are on the pod's node;
* else as in use on its node (`held`): the claim is shared, its pod has ended, is unknown, or has no seat on that node.
So on each node, what is free of a resource is the number of its devices that no claim has, or of sets of them
(`DeviceSet`). Devices of a claim for extended resources count through the pod's own requests of these resources, and are
held in all other columns. A pod whose claim has no devices yet counts what it requests.

A pod's seat is the one in Gangwright's annotation. A claim without devices that several pods name is not modeled: all of
them need the same node (`shared`).
Source: kube-scheduler 1.37, plugin DynamicResources.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from scheduler.model.demand import AnyOf
from scheduler.model.resources import Amounts, amounts
from scheduler.model.sharded_dict import ShardedDict
from scheduler.model.workload import Uid
from scheduler.objects import api, device_api
from scheduler.objects.affinity import terms
from scheduler.objects.device_pools import DeviceId, PoolKey
from scheduler.objects.device_requests import FIELD, Requests, requests
from scheduler.objects.device_slices import TOO_MANY, DeviceSlices
from scheduler.objects.volumes import ClaimKey

K = TypeVar("K")
V = TypeVar("V")

EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that kube-scheduler created for a container's extended resources."""

MISSING: Final = f"{FIELD}: a claim does not exist yet"
NO_TEMPLATE: Final = f"{FIELD}: a claim template does not exist yet"
UNSEEN: Final = f"{FIELD}: a request that no pod of the cluster has made yet"


NAMES_KEPT: Final = 1024
"""Distinct sets of requested extended resources that are shared among pods. Most clusters have a few."""


class Asked(NamedTuple):
    """What the claims of a pod add to its demand.

    gaps: what of them is not modeled.  beside: claims without devices that other pods use too: all need one node.
    """

    requests: Amounts = ()
    constraints: tuple[AnyOf, ...] = ()
    gaps: tuple[str, ...] = ()
    beside: tuple[ClaimKey, ...] = ()


NO_DEVICES: Final = Asked()


@dataclass(frozen=True, slots=True)
class _Claim:
    """consumer: the pod that it was created for, else the only pod that it is reserved for; empty: none, or several."""

    requests: Requests
    allocated: bool
    devices: tuple[DeviceId, ...]
    reach: AnyOf
    consumer: str
    extended: bool


class _Entry(NamedTuple):
    """One claim of a pod.  claim: None: it does not exist yet.  template: None: the claim is named in the pod."""

    claim: ClaimKey | None
    template: ClaimKey | None


@dataclass(slots=True)
class _User:
    """A pod with claims.  where: its node, or its seat."""

    entries: tuple[_Entry, ...]
    where: str
    asked: Asked = NO_DEVICES


@dataclass(slots=True)
class _Changed:
    """What has changed since the last `settle`."""

    nodes: set[str] = field(default_factory=set)
    pods: set[Uid] = field(default_factory=set)


class DeviceClaims:
    """The claims that exist, and the pods that use them, as far as seen."""

    def __init__(self) -> None:
        self.slices = DeviceSlices()
        self._claims: dict[ClaimKey, _Claim] = {}
        self._templates: dict[ClaimKey, Requests] = {}
        self._in_pool: dict[PoolKey, set[ClaimKey]] = {}
        self._of_consumer: dict[str, set[ClaimKey]] = {}
        self._users: dict[Uid, _User] = {}
        self._using: dict[ClaimKey, set[Uid]] = {}
        self._made_from: dict[ClaimKey, set[Uid]] = {}
        self._live: ShardedDict[Uid, tuple[str, ...]] = ShardedDict()
        """Pods that have not ended, with the extended resources that they request."""
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """One object for equal names: most pods request the same few."""
        self._changed = _Changed()
        self._version = 0

    # Objects

    def see_claim(self, found: device_api.ResourceClaim) -> None:
        key = ClaimKey(found.metadata.namespace, found.metadata.name)
        own = _claim(found)
        if self._claims.get(key) != own:
            self.lose_claim(key)
            self._claims[key] = own
            for device in own.devices:
                self._in_pool.setdefault(device.pool, set()).add(key)
            if own.consumer:
                self._of_consumer.setdefault(own.consumer, set()).add(key)
            self._claim_changed(key, own)

    def lose_claim(self, key: ClaimKey) -> None:
        own = self._claims.pop(key, None)
        if own is None:
            return
        for pool in {device.pool for device in own.devices}:
            _discard(self._in_pool, pool, key)
        _discard(self._of_consumer, own.consumer, key)
        self._claim_changed(key, own)

    def see_template(self, found: device_api.ResourceClaimTemplate) -> None:
        key, own = ClaimKey(found.metadata.namespace, found.metadata.name), requests(found.spec.spec)
        if self._templates.get(key) != own:
            self._templates[key] = own
            self._changed.pods.update(self._made_from.get(key, ()))

    def lose_template(self, key: ClaimKey) -> None:
        if self._templates.pop(key, None) is not None:
            self._changed.pods.update(self._made_from.get(key, ()))

    # Pods

    def see_pod(self, pod: api.Pod, where: str) -> Asked:
        """Add or update a pod that has not ended.  where: its node, or else its seat; empty: it has none."""
        uid, fresh = Uid(pod.metadata.uid), pod.metadata.uid not in self._live
        names = _extended(pod)
        if len(self._names) >= NAMES_KEPT:  # users choose them
            self._names.clear()
        self._live[uid] = self._names.setdefault(names, names)
        entries = tuple(_entries(pod))
        before = self._users.get(uid)
        if not entries and before is None:
            if fresh:
                self._consumer_changed(uid)
            return NO_DEVICES
        if before is None or before.entries != entries:
            self._forget(uid)
            for claim, template in entries:
                if claim is not None:
                    self._using.setdefault(claim, set()).add(uid)
                    self._changed.pods.update(() if template else self._using[claim] - {uid})
                if template is not None:
                    self._made_from.setdefault(template, set()).add(uid)
        user = _User(entries, where)
        if entries:
            self._users[uid] = user
        user.asked = self._asked(uid, user)
        if before is None or before.where != where:
            self._consumer_changed(uid)
        return user.asked

    def asked(self, pod: api.Pod) -> Asked:
        """What the claims of a hypothetical pod would add to its demand. It changes nothing."""
        entries = tuple(_entries(pod))
        for own in self._all_requests(entries):
            known = all(column in self.slices.columns for column, _ in own.columns)
            if not known or (own.equal is not None and own.equal not in self.slices.sets):
                return Asked(gaps=(UNSEEN,))
        return self._asked(Uid(""), _User(entries, ""))

    def lose_pod(self, uid: Uid) -> None:
        """The pod ended, or no longer exists."""
        if self._live.pop(uid, None) is not None:
            self._forget(uid)
            self._consumer_changed(uid)

    def renewed(self, uid: Uid) -> tuple[Asked, Asked] | None:
        """What the pod's claims added to its demand, and what they add now. None: the same."""
        user = self._users.get(uid)
        if user is None:
            return None
        before, user.asked = user.asked, self._asked(uid, user)
        return (before, user.asked) if before != user.asked else None

    def shared(self, uid: Uid) -> Iterator[ClaimKey]:
        """The claims of this pod that have no devices yet and that other pods name too. They all need one node."""
        user = self._users.get(uid)
        for claim, template in user.entries if user is not None else ():
            if claim is None or template is not None:
                continue
            own = self._claims.get(claim)
            if own is not None and not own.allocated and len(self._using.get(claim, ())) > 1:
                yield claim

    # Nodes

    def held(self, node: str) -> Amounts:
        """What devices in use on this node take that no pod's demand counts."""
        total: dict[str, int] = {}
        keys = {key for pool in self.slices.pools.pools_on(node) for key in self._in_pool.get(pool, ())}
        for key in keys:
            own = self._claims[key]
            if self._counts(own, node):
                continue
            used = self.slices.used(own.devices, node)
            if own.extended and (names := self._live.get(Uid(own.consumer))):
                backed = {
                    name
                    for column, _ in own.requests.columns
                    for name in self.slices.resources_of(column.device_class)
                }
                used = {name: count for name, count in used.items() if name not in backed.intersection(names)}
            _add(total, used)
        taken = {device for key in keys for device in self._claims[key].devices}
        for equal in self.slices.sets:
            sets = self.slices.fits(equal, node) - self.slices.fits(equal, node, taken)
            counted = sum(
                own.requests.equal == equal and self._counts(own, node)
                for own in (self._claims[key] for key in keys)
            )
            total[equal.name] = max(0, sets - counted)
        return amounts(total)

    def settle(self) -> tuple[set[str], set[Uid]]:
        """The nodes and the pods that may count differently since the last call."""
        if self.slices.is_crowded:
            asked = list(self._all_requests(entry for user in self._users.values() for entry in user.entries))
            self.slices.keep(
                (column for own in asked for column, _ in own.columns),
                {own.equal for own in asked if own.equal is not None},
            )
        nodes, pools = self.slices.settle()
        changed, self._changed = self._changed, _Changed()
        for key in {key for pool in pools for key in self._in_pool.get(pool, ())}:
            changed.pods.update(self._using.get(key, ()))
        if self._version != self.slices.version:
            self._version = self.slices.version
            changed.pods.update(self._users)
        return nodes | changed.nodes - {""}, changed.pods

    # Parts

    def _asked(self, uid: Uid, user: _User) -> Asked:
        taken: dict[str, int] = {}
        constraints: list[AnyOf] = []
        gaps: list[str] = []
        shared = set(self.shared(uid))
        for claim, template in user.entries:
            own = self._claims.get(claim) if claim is not None else None
            if own is not None and own.allocated:
                constraints += [own.reach] if own.reach else []
                counts = self._counts(own, user.where, uid)
                used = self.slices.used(own.devices, user.where) if counts else {}
                equal = own.requests.equal if counts else None
            elif own is None and template is None:
                gaps.append(MISSING)
                continue
            elif claim in shared and uid != min(self._using[claim]):
                continue  # its devices count once, for the first of its pods
            else:
                asked = self._requested(claim, template)
                found = [NO_TEMPLATE] if asked is None else list(self._missing(asked))
                gaps += found
                if asked is None or found:
                    continue
                used = {}
                for column, count in asked.columns:
                    _add(used, self.slices.requested(column, count))
                equal = asked.equal
            _add(taken, used)
            _add(taken, {equal.name: 1} if equal is not None else {})
        beside = tuple(sorted(shared))
        return Asked(amounts(taken), tuple(dict.fromkeys(constraints)), tuple(dict.fromkeys(gaps)), beside)

    def _missing(self, asked: Requests) -> Iterator[str]:
        yield from asked.gaps
        for column, _ in asked.columns:
            self.slices.want(column)
            if gap := self.slices.gap(column):
                yield gap
        if asked.equal is not None and not self.slices.want_set(asked.equal):
            yield TOO_MANY

    def _counts(self, own: _Claim, node: str, uid: str = "") -> bool:
        """The claim's devices on this node count through the demand of its consumer.  uid: only if it is this pod."""
        user = self._users.get(Uid(own.consumer))
        if user is None or own.extended or user.where != node or (uid and uid != own.consumer):
            return False
        return bool(node)

    def _claim_changed(self, key: ClaimKey, own: _Claim) -> None:
        self._changed.pods.update(self._using.get(key, ()))
        self._changed.nodes.update(map(self.slices.node_of, own.devices))

    def _consumer_changed(self, uid: Uid) -> None:
        for key in self._of_consumer.get(uid, ()):
            self._changed.nodes.update(map(self.slices.node_of, self._claims[key].devices))

    def _forget(self, uid: Uid) -> None:
        user = self._users.pop(uid, None)
        for claim, template in user.entries if user is not None else ():
            if claim is not None:
                _discard(self._using, claim, uid)
                self._changed.pods.update(() if template else self._using.get(claim, ()))
            if template is not None:
                _discard(self._made_from, template, uid)

    def _all_requests(self, entries: Iterable[_Entry]) -> Iterator[Requests]:
        """What these claims request, as far as known."""
        yield from (asked for own in entries if (asked := self._requested(*own)) is not None)

    def _requested(self, claim: ClaimKey | None, template: ClaimKey | None) -> Requests | None:
        """What the claim requests, or else its template. None: neither is known."""
        own = self._claims.get(claim) if claim is not None else None
        return (
            own.requests
            if own is not None
            else self._templates.get(template)
            if template is not None
            else None
        )


def _claim(found: device_api.ResourceClaim) -> _Claim:
    allocation, meta = found.status.allocation, found.metadata
    results = (allocation.devices.results if allocation is not None else None) or ()
    owner = next((own for own in meta.owner_references or () if own.controller and own.kind == "Pod"), None)
    reserved = [own.uid for own in found.status.reserved_for or ()]
    return _Claim(
        requests(found.spec),
        allocation is not None,
        # With admin access a device is used beside its owner.
        tuple(DeviceId(PoolKey(own.driver, own.pool), own.device) for own in results if not own.admin_access),
        terms(allocation.node_selector) if allocation is not None else (),
        owner.uid if owner is not None else reserved[0] if len(reserved) == 1 else "",
        (meta.annotations or {}).get(EXTENDED) == "true",
    )


def _entries(pod: api.Pod) -> Iterator[_Entry]:
    made = {own.name: own.resource_claim_name for own in pod.status.resource_claim_statuses or ()}
    for own in pod.spec.resource_claims or ():
        namespace = pod.metadata.namespace
        if own.resource_claim_template_name is None:
            yield _Entry(ClaimKey(namespace, own.resource_claim_name or ""), None)
            continue
        template = ClaimKey(namespace, own.resource_claim_template_name)
        if own.name not in made:
            yield _Entry(None, template)
        elif (name := made[own.name]) is not None:  # without a name the pod needs no claim
            yield _Entry(ClaimKey(namespace, name), template)


def _extended(pod: api.Pod) -> tuple[str, ...]:
    """The extended resources that its containers request."""
    found: set[str] = set()
    for own in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        if own.resources is not None:
            for said in (own.resources.requests, own.resources.limits):
                found.update(name for name in said or () if "/" in name)
    return tuple(sorted(found))


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _discard(index: dict[K, set[V]], key: K, value: V) -> None:
    found = index.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del index[key]
