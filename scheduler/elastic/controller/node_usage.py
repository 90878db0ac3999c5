"""Free capacity of the nodes for more workers, from the watches of nodes and pods.

Lives here: what pods take from nodes, and what a job's template requests. Never here: how free capacity is divided
(`sizing`), or placement: only the scheduler assigns nodes, and a worker without a node waits at its gate. Simple
arithmetic is therefore enough: what is allocatable, less what bound pods and pods with a planned node take.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from scheduler.elastic.controller.decode import ENDED
from scheduler.elastic.sizing import Free
from scheduler.model.demand import Demand
from scheduler.objects import api, labels, pod_annotations
from scheduler.objects.node_cache import NodeCache
from scheduler.objects.parsing import Unfit
from scheduler.objects.pod_demand import needs, wanted
from scheduler.objects.volumes import Volumes


class Asked(NamedTuple):
    """What one worker of a job requests."""

    amounts: dict[str, float]
    kind: int
    """Its row in `Free.eligible`."""


class _Taken(NamedTuple):
    node: str
    amounts: tuple[tuple[str, int], ...]


class NodeUsage:
    """The nodes that accept pods, and what is taken of them."""

    def __init__(self) -> None:
        self.freed = asyncio.Event()
        """Set when capacity may have appeared: a node was added or changed, or a pod takes less than before."""
        self._nodes = NodeCache()
        self._pods: dict[str, _Taken] = {}
        self._taken: dict[str, Counter[str]] = {}

    def node_seen(self, node: api.Node) -> None:
        """A node that is cordoned or being deleted has no free capacity, whatever a worker tolerates."""
        if node.spec.unschedulable or node.metadata.deletion_timestamp is not None:
            self._nodes.lose(node.metadata.name)
        elif self._nodes.see(node):
            self.freed.set()

    def node_gone(self, name: str) -> None:
        self._nodes.lose(name)

    def pod_seen(self, pod: api.Pod) -> None:
        """Update the pod's share, which changes with its node and with an in-place resize."""
        uid = pod.metadata.uid
        node = "" if pod.status.phase in ENDED else pod.spec.node_name or _seat(pod)
        taken = _Taken(node, _amounts(pod)) if node else None
        if taken == self._pods.get(uid):
            return
        self.pod_gone(uid)
        if taken is not None:
            self._pods[uid] = taken
            self._taken.setdefault(node, Counter()).update(dict(taken.amounts))

    def pod_gone(self, uid: str) -> None:
        taken = self._pods.pop(uid, None)
        if taken is None:
            return
        self.freed.set()
        here = self._taken[taken.node]
        here.subtract(dict(taken.amounts))
        if not any(here.values()):  # the node may be deleted, and its name never be used again
            del self._taken[taken.node]

    def holds(self, uid: str) -> bool:
        """Whether this pod takes capacity: it has a node, or a planned one."""
        return uid in self._pods

    def offer(self, templates: Mapping[str, Mapping[str, Any]]) -> tuple[Free, dict[str, Asked]]:
        """What is free, and what one worker of each of these jobs requests. templates: by job, a worker's whole Pod.

        An invalid pod requests a resource that no node has.
        """
        demands = {job: _demand(pod) for job, pod in templates.items()}
        alike = {own.where: own for own in demands.values()}
        masks = {where: self._nodes.admitted(own).tobytes() for where, own in alike.items()}
        kinds = {mask: row for row, mask in enumerate(dict.fromkeys(masks.values()))}
        eligible = np.array([np.frombuffer(mask, dtype=np.bool_) for mask in kinds], dtype=np.bool_)
        resources = tuple(sorted({name for own in demands.values() for name, _ in own.requests}))
        rows = [
            [own.get(resource, 0) - self._taken.get(name, NOTHING)[resource] for resource in resources]
            for name, own in self._nodes.allocatable().items()
        ]
        amounts = np.array(rows, dtype=np.float64).reshape(len(rows), len(resources))
        asked = {
            job: Asked({name: float(value) for name, value in own.requests}, kinds[masks[own.where]])
            for job, own in demands.items()
        }
        return Free(resources, np.maximum(amounts, 0.0), eligible), asked


IMPOSSIBLE: Final = Demand((("gangwright.io/unreadable", 1),))
NOTHING: Final[Counter[str]] = Counter()
NO_CLAIMS: Final = Volumes()
"""Which nodes reach a claim is not watched here."""


def _demand(written: Mapping[str, Any]) -> Demand:
    try:
        found = wanted(msgspec.convert(written, api.Pod), NO_CLAIMS)
    except msgspec.ValidationError:
        return IMPOSSIBLE
    return IMPOSSIBLE if found.complaints else found.demand


def _amounts(pod: api.Pod) -> tuple[tuple[str, int], ...]:
    try:
        return tuple(needs(pod))
    except ValueError:
        return (("pods", 1),)


def _seat(pod: api.Pod) -> str:
    """The node that the scheduler has planned for it, before it is bound."""
    said = (pod.metadata.annotations or {}).get(labels.SEAT)
    try:
        return pod_annotations.read_seat(said).node if said else ""
    except Unfit:
        return ""
