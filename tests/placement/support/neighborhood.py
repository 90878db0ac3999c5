"""kube-scheduler's tests of neighbors, pod against pod: InterPodAffinity and PodTopologySpread of version 1.37, slowly.

It knows nothing of columns, counts or masks of the planner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scheduler.ledger.neighbor_table import NeighborTable
from scheduler.model.cluster import Node, Snapshot
from scheduler.model.demand import TaintEffect
from scheduler.model.neighbors import (
    CLUSTER,
    NO_NEIGHBORS,
    NODE,
    Neighbors,
    PodLabels,
    PodSelector,
    TopologySpread,
    labels_text,
)
from scheduler.model.workload import Gang, Pod, PodKey, Uid
from tests.placement.support.accountant import may_hold, room
from tests.support.builders import a_demand, a_snapshot, some_amounts


@dataclass(frozen=True)
class Resident:
    """A pod on a node: with its labels, its rules, and what it uses."""

    node: str
    labels: Mapping[str, str]
    neighbors: Neighbors = NO_NEIGHBORS
    namespace: str = "default"
    deleting: bool = False
    gpu: int = 0

    @property
    def seen(self) -> PodLabels:
        return PodLabels(self.namespace, tuple(sorted(self.labels.items())))

    def pod(self, number: int) -> Pod:
        return Pod(
            Uid(f"there-{number}"),
            PodKey(self.namespace, f"there-{number}"),
            a_demand(gpu=self.gpu),
            node=self.node,
            labels=labels_text(self.labels),
            neighbors=self.neighbors,
            deleting=self.deleting,
        )


def a_picture(
    nodes: Sequence[Node], there: Sequence[Resident], gangs: Sequence[Gang], namespaces=None
) -> Snapshot:
    """The planner's picture of these nodes and pods, with the columns that the gangs' rules read."""
    pods = [(own.pod(number), own.node) for number, own in enumerate(there)]
    table = NeighborTable(lambda: pods, lambda: [pod for pod, _ in pods])
    for name, labels in (namespaces or {}).items():
        table.namespace_seen(name, labels)
    for pod, node in pods:
        table.note(pod.neighbors, list)
        table.put(pod, node)
    used = {
        node.name: some_amounts(
            gpu=sum(own.gpu for own in there if own.node == node.name),
            pods=sum(own.node == node.name for own in there),
        )
        for node in nodes
    }
    axis = {name for node in nodes for name, _ in node.capacity}
    used = {name: tuple(own for own in amounts if own[0] in axis) for name, amounts in used.items()}
    return table.picture(a_snapshot(nodes, used=used), gangs)


class Neighborhood:
    """The nodes and the pods on them, with a gang's members placed one after another."""

    def __init__(self, nodes: Sequence[Node], there: Sequence[Resident], namespaces=None) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.there = list(there)
        self.namespaces = namespaces or {}

    def domain(self, node: str, key: str) -> str | None:
        if key == NODE:
            return node
        return "" if key == CLUSTER else self.nodes[node].labels.get(key)

    def selects(self, selector: PodSelector, pod: PodLabels) -> bool:
        return selector.selects(pod, self.namespaces)

    def accepts(self, newcomer: Resident, demand) -> bool:
        """Room, node requirements, and all three rules: those of the newcomer, and those of the pods that are there."""
        return self._has_room(newcomer.node, demand) and self.welcomes(newcomer, demand)

    def welcomes(self, newcomer: Resident, demand) -> bool:
        """The three rules alone."""
        return (
            self._apart(newcomer)
            and self._near(newcomer)
            and all(self._even(newcomer, demand, own) for own in newcomer.neighbors.spread)
        )

    def _has_room(self, node: str, demand) -> bool:
        own = self.nodes[node]
        free = dict(own.capacity)
        here = [pod for pod in self.there if pod.node == node]
        free["nvidia.com/gpu"] = free.get("nvidia.com/gpu", 0) - sum(pod.gpu for pod in here)
        free["pods"] = free.get("pods", 0) - len(here)
        return may_hold(own, demand) and room(free, demand) > 0

    def _apart(self, newcomer: Resident) -> bool:
        for other in self.there:
            for one, two in ((newcomer, other), (other, newcomer)):
                for term in one.neighbors.anti_affinity:
                    place = self.domain(newcomer.node, term.topology_key)
                    same = place is not None and place == self.domain(other.node, term.topology_key)
                    if same and self.selects(term.pods, two.seen):
                        return False
        return True

    def _near(self, newcomer: Resident) -> bool:
        terms = newcomer.neighbors.affinity
        if not terms:
            return True
        if any(self.domain(newcomer.node, term.topology_key) is None for term in terms):
            return False
        friends = [pod for pod in self.there if all(self.selects(term.pods, pod.seen) for term in terms)]
        counted = [
            (term.topology_key, self.domain(pod.node, term.topology_key))
            for term in terms
            for pod in friends
            if self.domain(pod.node, term.topology_key) is not None
        ]
        if not counted:
            return all(self.selects(term.pods, newcomer.seen) for term in terms)
        return all(
            (term.topology_key, self.domain(newcomer.node, term.topology_key)) in counted for term in terms
        )

    def _even(self, newcomer: Resident, demand, rule: TopologySpread) -> bool:
        place = self.domain(newcomer.node, rule.topology_key)
        if place is None:
            return False
        counts: dict[str, int] = {}
        for name, node in self.nodes.items():
            keys = [self.domain(name, own.topology_key) for own in newcomer.neighbors.spread]
            if None in keys or not self._included(node, demand, rule):
                continue
            here = [pod for pod in self.there if pod.node == name and not pod.deleting]
            at = self.domain(name, rule.topology_key)
            counts[at] = counts.get(at, 0) + sum(self.selects(rule.pods, pod.seen) for pod in here)
        least = min(counts.values(), default=0) if len(counts) >= rule.min_domains else 0
        own = int(self.selects(rule.pods, newcomer.seen))
        return counts.get(place, 0) + own - least <= rule.max_skew

    def _included(self, node: Node, demand, rule: TopologySpread) -> bool:
        if rule.honors_affinity and any(node.labels.get(key) != value for key, value in demand.selector):
            return False
        if rule.tolerations is None:
            return True
        hard = [
            taint
            for taint in node.taints
            if taint.effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
        ]
        return not demand.untolerated(hard) and node.schedulable


def members_of(gang: Gang) -> list[tuple[Uid, object]]:
    return [(uid, role) for role in gang.roles for uid in role.quorum]


def newcomer(role, node: str) -> Resident:
    labels = dict(role.labels.labels) if role.labels is not None else {}
    gpu = dict(role.demand.requests).get("nvidia.com/gpu", 0)
    return Resident(node, labels, role.neighbors, gang_namespace(role), gpu=gpu)


def gang_namespace(role) -> str:
    return role.labels.namespace if role.labels is not None else "default"


def in_this_order(nodes, there, gang: Gang, seats: Mapping[Uid, str], namespaces=None) -> bool:
    """kube-scheduler accepts each of these members after the ones before."""
    hood, roles = Neighborhood(nodes, there, namespaces), dict(members_of(gang))
    roles |= {uid: role for role in gang.roles for uid in role.surplus}
    for uid, node in seats.items():
        one = newcomer(roles[uid], node)
        if not hood.accepts(one, roles[uid].demand):
            return False
        hood.there.append(one)
    return True


def seats_exist(nodes, there, gang: Gang, inside=None, namespaces=None) -> bool:
    """Some seats for the whole quorum, in some order, are accepted one by one: every way is looked at.

    inside: by node the domain of a required level, None outside of all; without it, any node will do.
    """
    members = [role for _, role in members_of(gang)]
    seen: set[tuple] = set()

    def search(left: tuple[int, ...], hood: Neighborhood, at: object) -> bool:
        if not left:
            return True
        state = (left, tuple(sorted((own.node, own.seen) for own in hood.there[len(there) :])))
        if state in seen:
            return False
        seen.add(state)
        for index, name in product(dict.fromkeys(left), hood.nodes):
            one = newcomer(members[index], name)
            outside = inside is not None and inside[name] != at
            if outside or name in gang.barred or not hood.accepts(one, members[index].demand):
                continue
            rest = list(left)
            rest.remove(index)
            hood.there.append(one)
            if search(tuple(rest), hood, at):
                return True
            hood.there.pop()
        return False

    domains = {None} if inside is None else set(inside.values()) - {None}
    for at in domains:
        seen.clear()
        if search(tuple(range(len(members))), Neighborhood(nodes, there, namespaces), at):
            return True
    return False
