"""A small kube-scheduler: its cycle, its queue and its mistakes, as far as an extender can tell.

Faithful: in-tree fit from its own cache first, room kept for nominated pods of equal or higher priority; a
pinned pod is looked at on its one node; the nominated node alone before all others; no call when nothing
passed in-tree; prioritize for two nodes or more; assume, then a bind that may fail; every failed attempt wipes
the nomination and sets PodScheduled=False; refused pods are woken by any event, pods without room by freed
room, errors by time alone; preemption deletes the victims of one node, once the extender has let them pass.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from scheduler.model.cluster import Node
from scheduler.model.demand import AnyOf, Operator, Requirement, Term
from scheduler.model.events import FailureKind
from scheduler.model.neighbors import read_labels
from scheduler.model.verbs import Allowed, Answer, Failed, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import Pod, PodKey, Uid
from tests.engine.support.api import FakeApi, RefusalError
from tests.engine.support.cast import OURS
from tests.placement.support.neighborhood import Neighborhood, Resident

FLUSH = 300.0
"""Seconds after which an unschedulable pod is tried again whatever happened."""

LONGEST_BACK_OFF = 10.0

APART = "spec.affinity.podAntiAffinity"
"""Pods that say this want a node each, without any other that says it."""


class Extender(Protocol):
    """What kube-scheduler knows of us."""

    def filter(self, call: FilterCall) -> Answer: ...

    def prioritize(self, call: PrioritizeCall) -> list[int]: ...

    def preempt(self, call: PreemptCall) -> dict[str, Victims]: ...


@dataclass
class Rest:
    """Why a pod is not tried now: until something freed room, anything happened, or a time has come."""

    frees: int
    version: int
    since: float
    cause: str
    errors: int = 0

    def over(self, api: FakeApi) -> bool:
        if self.cause == "error":
            return api.now >= self.until
        woken = api.frees > self.frees if self.cause == "room" else api.version > self.version
        return woken or api.now >= self.until

    @property
    def until(self) -> float:
        if self.cause == "error":
            return self.since + min(2.0 ** (self.errors - 1), LONGEST_BACK_OFF)
        return self.since + FLUSH


class FakeScheduler:
    """One process with one profile, asking one extender."""

    def __init__(self, api: FakeApi, extender: Extender, saw: Callable[[FilterCall, Answer], None]) -> None:
        self.api = api
        self.extender = extender
        self.saw = saw
        self.assumed: dict[Uid, tuple[PodKey, str]] = {}
        self.binding: deque[Uid] = deque()
        self.resting: dict[Uid, Rest] = {}
        self.turn = 0
        self.apart: set[Uid] = set()
        """Pods of which it saw that each wants a node without any other of them."""

    # ── the queue ───────────────────────────────────────────────────────────────────────────────────────

    def queue(self) -> list[Pod]:
        """Pods to be tried now, the most important first."""
        there = {pod.uid for pod in self.api.pods.values()}
        for uid in [uid for uid in self.resting if uid not in there]:
            del self.resting[uid]
        ready = [
            pod
            for pod in self.api.pods.values()
            if self._mine(pod) and ((rest := self.resting.get(pod.uid)) is None or rest.over(self.api))
        ]
        return sorted(ready, key=lambda pod: (-pod.priority, pod.created, pod.key))

    def _mine(self, pod: Pod) -> bool:
        free = pod.node is None and not pod.deleting and not pod.gated and not pod.held_back
        return free and pod.scheduler == OURS and pod.uid not in self.assumed

    def next_time(self) -> float:
        """When time alone will make a pod worth trying."""
        alive = {pod.uid for pod in self.api.pods.values() if self._mine(pod)}
        return min((rest.until for uid, rest in self.resting.items() if uid in alive), default=float("inf"))

    # ── one attempt ─────────────────────────────────────────────────────────────────────────────────────

    def cycle(self, pod: Pod) -> None:
        """Try one pod: assumed in the end, or resting."""
        self.turn += 1
        if APART in pod.unmodeled:
            self.apart.add(pod.uid)
        errors = self.resting.pop(pod.uid).errors if pod.uid in self.resting else 0
        fitting = self.fitting(pod)
        if not fitting:
            self._preempt(pod)
            return
        answer: Answer | None = None
        if pod.nominated in fitting:
            answer = self._ask(pod, (str(pod.nominated),))
        if not (isinstance(answer, Allowed) and answer.nodes):
            answer = self._ask(pod, fitting)
        if isinstance(answer, Allowed) and answer.nodes:
            self._assume(pod, self._best(pod, answer.nodes))
        elif isinstance(answer, Failed):
            self._fail(pod, "SchedulerError", "error", errors + 1)
        else:
            self._fail(pod, "Unschedulable", "extender")

    def fitting(self, pod: Pod) -> tuple[str, ...]:
        """The nodes that pass in-tree, from where the last search ended."""
        found = tuple(name for name in sorted(self.api.nodes) if self._fits(pod, self.api.nodes[name]))
        turned = self.turn % len(found) if found else 0
        return found[turned:] + found[:turned]

    def _ask(self, pod: Pod, candidates: tuple[str, ...]) -> Answer:
        call = FilterCall(pod.uid, pod.key, pod.scheduler, pod.native_group, candidates)
        answer = self.extender.filter(call)
        self.saw(call, answer)
        return answer

    def _best(self, pod: Pod, nodes: tuple[str, ...]) -> str:
        if len(nodes) == 1:
            return nodes[0]
        scores = self.extender.prioritize(
            PrioritizeCall(pod.uid, pod.key, pod.scheduler, pod.native_group, nodes)
        )
        return max(zip(scores, nodes, strict=True))[1]

    def _fits(self, pod: Pod, node: Node, without: frozenset[Uid] = frozenset()) -> bool:
        """NodeUnschedulable, TaintToleration, NodeAffinity, NodeResourcesFit and InterPodAffinity."""
        if not node.schedulable or pod.demand.untolerated(node.taints):
            return False
        if any(node.labels.get(key) != value for key, value in pod.demand.selector):
            return False
        if not all(matches(terms, node) for terms in pod.demand.constraints):
            return False
        used = [other for other in self._users(pod, node.name) if other.uid not in without]
        if pod.uid in self.apart and not self.apart.isdisjoint(other.uid for other in used):
            return False
        if any(pod.neighbors for pod in self.api.pods.values()) and not self._is_welcome(
            pod, node.name, without
        ):
            return False
        return all(
            dict(node.capacity).get(name, 0)
            >= wanted + sum(dict(other.demand.requests).get(name, 0) for other in used)
            for name, wanted in pod.demand.requests
        )

    def _is_welcome(self, pod: Pod, node: str, without: frozenset[Uid]) -> bool:
        """InterPodAffinity and PodTopologySpread, beside all pods on nodes, and those nominated for this one."""
        here = {other.uid for other in self._users(pod, node)}
        there = [
            _resident(other, where)
            for other in self.api.pods.values()
            if other.uid != pod.uid and other.uid not in without and not other.phase.ended
            if (where := self._where(other) or (node if other.uid in here else None)) in self.api.nodes
        ]
        hood = Neighborhood(list(self.api.nodes.values()), there)
        return hood.welcomes(_resident(pod, node), pod.demand)

    def _where(self, pod: Pod) -> str | None:
        assumed = self.assumed.get(pod.uid)
        return pod.node or (assumed[1] if assumed else None)

    def _users(self, pod: Pod, node: str) -> list[Pod]:
        """Bound and assumed pods, and those whose nomination this pod must respect."""
        assumed = {uid for uid, (_, where) in self.assumed.items() if where == node}
        return [
            other
            for other in self.api.pods.values()
            if other.uid != pod.uid
            and not other.phase.ended
            and (
                other.node == node
                or (other.node is None and other.uid in assumed)
                or (
                    other.node is None
                    and other.uid not in self.assumed
                    and other.nominated == node
                    and other.scheduler == OURS
                    and other.priority >= pod.priority
                )
            )
        ]

    def _preempt(self, pod: Pod) -> None:
        """DefaultPreemption, up to 1.37: nodes on which lower priority stands in the way."""
        offers: dict[str, Victims] = {}
        for name, node in sorted(self.api.nodes.items()):
            lower = [other for other in self.api.of_node(name) if other.priority < pod.priority]
            if lower and self._fits(pod, node, frozenset(other.uid for other in lower)):
                offers[name] = Victims(tuple(other.uid for other in lower))
        kept: dict[str, Victims] = {}
        if offers:
            call = PreemptCall(pod.uid, pod.key, pod.scheduler, pod.native_group, offers)
            kept = self.extender.preempt(call)
            assert kept.keys() <= offers.keys()
        self._fail(pod, "Unschedulable", "room")
        if kept:
            node, victims = min(kept.items())
            for other in self.api.of_node(node):
                if other.uid in victims.uids:
                    self.api.delete(other.key)
            self.api.write(replace(self.api.pods[pod.key], nominated=node))

    # ── assume, bind, fail ──────────────────────────────────────────────────────────────────────────────

    def _assume(self, pod: Pod, node: str) -> None:
        self.assumed[pod.uid] = (pod.key, node)
        self.binding.append(pod.uid)

    def bind_next(self, *, well: bool = True) -> None:
        """The oldest bind under way ends, well or not."""
        uid = self.binding.popleft()
        key, node = self.assumed.pop(uid)
        try:
            if not well or not self.api.up:
                raise RefusalError(FailureKind.UNAVAILABLE)
            self.api.bind(uid, key, node)
            self.resting.pop(uid, None)
        except RefusalError:
            pod = self.api.pods.get(key)
            if pod is not None and pod.uid == uid:
                self._fail(pod, "SchedulerError", "error", 1)
            self.api.frees += 1

    def _fail(self, pod: Pod, reason: str, cause: str, errors: int = 0) -> None:
        self.resting[pod.uid] = Rest(self.api.frees, self.api.version, self.api.now, cause, errors)
        if self.api.up:
            self.api.fail(pod.uid, pod.key, reason, "no node suits the pod")


def _resident(pod: Pod, node: str) -> Resident:
    return Resident(node, read_labels(pod.labels), pod.neighbors, pod.key.namespace, pod.deleting)


def matches(terms: AnyOf, node: Node) -> bool:
    """One of the terms holds for the node; only `In` is played here."""
    return any(_holds(term, node) for term in terms)


def _holds(term: Term, node: Node) -> bool:
    labels = all(_among(one, node.labels.get(one.key)) for one in term.labels)
    return bool(term.labels or term.fields) and labels and all(_among(one, node.name) for one in term.fields)


def _among(one: Requirement, value: str | None) -> bool:
    assert one.operator is Operator.IN
    return value in one.values
