"""What the nodes have free for further workers, from the watches of nodes and pods.

Lives here: sums, and which nodes a template admits. Never here: how the room is shared (`sizing`), or a seat: the
scheduler alone seats, and a worker for which it finds no room waits at its gate and disturbs nobody. So simple
arithmetic will do: what is allocatable, less what pods that are bound or seated take; of a template its node selector,
the required node affinity by labels, and its tolerations. Room that another gang waits for counts as free: surplus
gives way at once.

Why eligibility is a resource here: room is shared out over all jobs in one call that knows nodes by their amounts
alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.elastic.controller.decode import ENDED
from scheduler.elastic.sizing.job_view import Free
from scheduler.objects import api, labels, pod_annotations
from scheduler.objects.parsing import Unfit
from scheduler.objects.pod_demand import needs

FITS: Final = "gangwright.io/fits-"
"""Of a made-up resource: one for each kind of template, on the nodes that admit it."""

PLENTY: Final = 1e9
KEEPS_OUT: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that keep a pod out which does not tolerate them."""


class _Seen(NamedTuple):
    node: api.Node
    total: dict[str, int]
    """What is allocatable, in whole units."""


class _Taken(NamedTuple):
    node: str
    amounts: tuple[tuple[str, int], ...]


class Room:
    """Nodes, and what is taken of them."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Seen] = {}
        self._pods: dict[str, _Taken] = {}
        self._taken: dict[str, Counter[str]] = {}

    def node_seen(self, node: api.Node) -> None:
        self._nodes[node.metadata.name] = _Seen(node, _allocatable(node))

    def node_gone(self, name: str) -> None:
        self._nodes.pop(name, None)

    def pod_seen(self, pod: api.Pod) -> None:
        uid = pod.metadata.uid
        node = "" if pod.status.phase in ENDED else pod.spec.node_name or _seat(pod)
        known = self._pods.get(uid)
        if known is not None and known.node == node:
            return  # what it takes changes with its node alone, but for a resize in place
        self.pod_gone(uid)
        if node:
            self._pods[uid] = taken = _Taken(node, _amounts(pod))
            self._taken.setdefault(node, Counter()).update(dict(taken.amounts))

    def pod_gone(self, uid: str) -> None:
        taken = self._pods.pop(uid, None)
        if taken is None:
            return
        here = self._taken[taken.node]
        here.subtract(dict(taken.amounts))
        if not any(here.values()):  # the node may be gone, and its name never be used again
            del self._taken[taken.node]

    def holds(self, uid: str) -> bool:
        """Whether this pod takes room: it has a node, or a seat on one."""
        return uid in self._pods

    def offer(self, templates: Mapping[str, Mapping[str, Any]]) -> tuple[Free, dict[str, dict[str, float]]]:
        """What is free, and what one worker of each of these jobs takes of it; by job, its worker's whole Pod.

        A pod that cannot be read takes what no node has.
        """
        workers = {job: _worker(pod) for job, pod in templates.items()}
        kinds = {worker.kind: number for number, worker in enumerate(dict.fromkeys(workers.values()))}
        asked = {name for worker in workers.values() for name, _ in worker.amounts}
        nodes = tuple(
            self._free(seen, asked) | _admitted(seen.node, kinds)
            for seen in self._nodes.values()
            if _open(seen.node)
        )
        takes = {
            job: {**dict(worker.amounts), f"{FITS}{kinds[worker.kind]}": 1.0}
            for job, worker in workers.items()
        }
        return Free(nodes=nodes), takes

    def _free(self, seen: _Seen, asked: Iterable[str]) -> dict[str, float]:
        """Of the resources that somebody asks for, in whole units."""
        taken = self._taken.get(seen.node.metadata.name, Counter())
        return {name: float(max(0, seen.total.get(name, 0) - taken[name])) for name in asked}


class _Kind(NamedTuple):
    """What a template asks of nodes, as values."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()


class _Worker(NamedTuple):
    kind: _Kind
    amounts: tuple[tuple[str, float], ...]


IMPOSSIBLE: Final = _Worker(_Kind(), (("gangwright.io/unreadable", 1.0),))


def _worker(written: Mapping[str, Any]) -> _Worker:
    try:
        pod = msgspec.convert(written, api.Pod)
        amounts = tuple((name, float(value)) for name, value in needs(pod) if value)
    except (msgspec.ValidationError, ValueError):
        return IMPOSSIBLE
    return _Worker(_kind(pod.spec), amounts)


def _kind(spec: api.PodSpec) -> _Kind:
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required if node else None
    terms = tuple(
        tuple((own.key, own.operator, tuple(own.values or ())) for own in term.match_expressions or ())
        for term in (required.node_selector_terms if required else None) or ()
    )
    tolerations = tuple((own.key, own.operator, own.value, own.effect) for own in spec.tolerations or ())
    return _Kind(tuple(sorted((spec.node_selector or {}).items())), terms, tolerations)


def _amounts(pod: api.Pod) -> tuple[tuple[str, int], ...]:
    try:
        return tuple(needs(pod))
    except ValueError:
        return (("pods", 1),)


def _allocatable(node: api.Node) -> dict[str, int]:
    """As a pod that asks for all of it would."""
    asked = api.ResourceRequirements(requests=node.status.allocatable)
    pod = api.Pod(api.Meta(), api.PodSpec(containers=[api.Container(resources=asked)]))
    pods = (node.status.allocatable or {}).get("pods", 0)
    try:
        return {**dict(needs(pod)), "pods": int(str(pods))}
    except ValueError:
        return {}


def _seat(pod: api.Pod) -> str:
    """The node that the scheduler has for it, before it is bound."""
    said = (pod.metadata.annotations or {}).get(labels.SEAT)
    try:
        return pod_annotations.read_seat(said).node if said else ""
    except Unfit:
        return ""


def _open(node: api.Node) -> bool:
    return not node.spec.unschedulable and node.metadata.deletion_timestamp is None


def _admitted(node: api.Node, kinds: Mapping[_Kind, int]) -> dict[str, float]:
    return {f"{FITS}{number}": PLENTY for kind, number in kinds.items() if _admits(node, kind)}


def _admits(node: api.Node, kind: _Kind) -> bool:
    said = node.metadata.labels or {}
    return (
        all(said.get(key) == value for key, value in kind.selector)
        and (not kind.terms or any(all(_holds(said, own) for own in term) for term in kind.terms))
        and all(_tolerated(taint, kind) for taint in node.spec.taints or () if taint.effect in KEEPS_OUT)
    )


def _holds(said: Mapping[str, str], requirement: tuple[str, str, tuple[str, ...]]) -> bool:
    key, operator, values = requirement
    match operator:
        case "In":
            return said.get(key) in values
        case "NotIn":
            return said.get(key) not in values
        case "Exists":
            return key in said
        case "DoesNotExist":
            return key not in said
        case _:  # comparisons of numbers: the scheduler will know
            return True


def _tolerated(taint: api.Taint, kind: _Kind) -> bool:
    return any(
        (not key or key == taint.key)
        and (not effect or effect == taint.effect)
        and (operator == "Exists" or value == taint.value)
        for key, operator, value, effect in kind.tolerations
    )
