"""A small cluster on a clock of its own, through which gangs go by the thousand; the engine decides about all of them.

The API server is the one of `tests.engine`, with every precondition of an effect. kube-scheduler, kubelets and
controllers are played here, without their mistakes: a walk over all pods for every attempt would take hours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bench.soak.mix import Draft, Fate, draft
from scheduler.engine import Engine
from scheduler.engine.equivalence import KEPT as SHAPES
from scheduler.ledger.gang import GangRecord
from scheduler.ledger.gang_parts import Pinning
from scheduler.ledger.registry import SCARS_KEPT
from scheduler.ledger.runtimes import OWNERS
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.demand import Demand
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from scheduler.model.verbs import Allowed, FilterCall, PrioritizeCall
from scheduler.model.workload import (
    Budget,
    GangKey,
    GiveWay,
    Group,
    Owner,
    Phase,
    Pod,
    PodKey,
    Quota,
)
from tests.engine.support.api import Controller, FakeApi, RefusalError
from tests.engine.support.cast import OURS, a_membership, a_pod, an_owner
from tests.support.builders import GPU, a_node

NODES: Final = 32
GPUS: Final = 8
ALIVE: Final = 100
"""Gangs at a time at most."""

BORN: Final = 20
"""Gangs made in a second of the soak's clock at most."""

PATIENCE: Final = 12.0
"""Seconds after which a gang that does not run is taken back."""

REST: Final = 3600.0
"""Seconds without any gang before what is remembered is counted: time-outs and back-offs are over by then."""

POLICY: Final = Policy(
    timeout=20.0,
    backoff=2.0,
    backoff_limit=10.0,
    barred=15.0,
    pin_grace=2.0,
    pin_limit=4.0,
    default_runtime=5.0,
    preemption_cooldown=5.0,
    shares={"team-0": Share(((GPU, 16),)), "team-1": Share((), ((GPU, 64),))},
)
"""Everything as in production, only sooner over."""


@dataclass
class Living:
    """A gang that is here: how its pods are made, and which there are."""

    draft: Draft
    gang: str
    owner: Owner | None
    template: Callable[[str], Pod]
    since: float
    keys: set[PodKey] = field(default_factory=set)
    born: int = 0
    ends: float = float("inf")
    ending: bool = False
    broken: bool = False


class Cluster:
    """Nodes, gangs, and all else that changes pods."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.engine = Engine(POLICY)
        self.api = FakeApi()
        self.living: dict[GangKey, Living] = {}
        self.strangers: dict[PodKey, float] = {}
        self.made = 0
        self.told: dict[str, int] = {}
        """Effects by kind."""
        self._ages = 0
        for number in range(NODES):
            self._node(number)
        self.api.feed += [ev.Synced(), ev.TookOver()]

    @property
    def now(self) -> float:
        return self.api.now

    # ── whole stretches of time ─────────────────────────────────────────────────────────────────────────

    def fill(self) -> None:
        """Fills what is kept within a bound and would fill late: what was learned by namespace, broken pins, and what
        is known of each shape of gang.
        """
        for number in range(SHAPES):
            pod = self.api.create(a_pod("before", cpu=1 + number, gpu=GPUS + 1))
            self._think()
            self.api.delete(pod.key)
            self._think()
        runtimes, registry = self.engine.ledger.runtimes, self.engine.ledger.registry
        for number in range(OWNERS):
            namespace = f"before-{number}"
            runtimes.ended(namespace, "", 1, 2.0, 3.0)
            runtimes.reach((namespace, "", 1, 2.0, POLICY.default_runtime))
        for number in range(SCARS_KEPT):
            key = GangKey("before", f"gang-{number}")
            registry.keep_scars(
                GangRecord(key, pinning=Pinning(barred={"n1": (1.0, float(number))})), a_pod(key.name)
            )

    def churn(self, until: int) -> None:
        """Makes gangs until so many were made in all, and goes on until none is left."""
        while self.made < until or self.living or self.strangers:
            for _ in range(BORN if len(self.living) < ALIVE else 0):
                if self.made < until:
                    self._make(draft(self.made, self.seed))
                    self.made += 1
            self._second()

    def rest(self, seconds: float = REST) -> None:
        """Time goes by, and nothing comes."""
        end = self.now + seconds
        while (due := self.engine.next_deadline()) <= end:
            self.api.now = max(self.now, due)
            self._think()
        self.api.now = end
        self._think()
        self._scrape()

    def _scrape(self) -> None:
        """What the gauges of the service take every two seconds."""
        ledger = self.engine.ledger
        ledger.gang_counts()
        ledger.counters.drain()
        started, ledger.counters.starts = ledger.counters.starts, []
        self.engine.forecasts.started(started)

    def _second(self) -> None:
        self.api.now += 1.0
        self._control()
        self._think()
        self._break()
        self._schedule()
        self._run_pods()
        self._end()
        self._think()
        self._machines()
        self._scrape()

    # ── the engine ──────────────────────────────────────────────────────────────────────────────────────

    def _think(self) -> None:
        """News go in and effects are carried out, until nothing follows any more."""
        engine, api = self.engine, self.api
        while True:
            news, api.feed = api.feed, []
            if engine.ledger.next_deadline() <= self.now:
                news.append(ev.Tick())
            if not news and engine.next_deadline() > self.now:
                break
            effects = [*engine.observe(news, self.now), *engine.plan(self.now)]
            if not news and not effects:
                break
            outcomes = [self._carried_out(effect) for effect in effects]
            if outcomes:
                api.feed += outcomes
        for kept in (api.announced, api.ungated, api.evicted):
            kept.clear()
        faults = engine.ledger.faults.drain()
        if faults:
            raise faults[0].error

    def _carried_out(self, effect: Effect) -> ev.Event:
        kind = type(effect).__name__
        self.told[kind] = self.told.get(kind, 0) + 1
        try:
            self.api.apply(effect)
        except RefusalError as refusal:
            return ev.EffectFailed(effect, refusal.kind)
        return ev.EffectDone(effect)

    # ── kube-scheduler ──────────────────────────────────────────────────────────────────────────────────

    def _schedule(self) -> None:
        used = self._used()
        for key in sorted(self.api.pods, key=lambda own: -self.api.pods[own].priority):
            pod = self.api.pods.get(key)
            if (
                pod is not None
                and pod.node is None
                and not pod.gated
                and not pod.deleting
                and pod.scheduler == OURS
            ):
                self._attempt(pod, used)

    def _attempt(self, pod: Pod, used: dict[str, int]) -> None:
        needs = _gpus(pod.demand)
        names = [pod.pinned] if pod.pinned else [pod.nominated] if pod.nominated else sorted(self.api.nodes)
        fits = tuple(name for name in names if self._free(name, used) >= needs)
        node = self._asked(pod, fits) if fits else None
        if node is None:
            self.api.fail(pod.uid, pod.key, "Unschedulable", "no node suits the pod")
            return
        self.api.bind(pod.uid, pod.key, node)
        used[node] = used.get(node, 0) + needs

    def _asked(self, pod: Pod, fits: tuple[str, ...]) -> str | None:
        call = FilterCall(pod.uid, pod.key, pod.scheduler, pod.native_group, fits)
        answer, effects = self.engine.filter(call, self.now)
        self.api.feed += [self._carried_out(effect) for effect in effects]
        fresh = self.api.pods.get(pod.key)
        if not isinstance(answer, Allowed) or not answer.nodes or fresh is None or fresh.deleting:
            return None
        rest = PrioritizeCall(pod.uid, pod.key, pod.scheduler, pod.native_group, answer.nodes)
        return max(zip(self.engine.prioritize(rest), answer.nodes, strict=True))[1]

    def _used(self) -> dict[str, int]:
        used: dict[str, int] = {}
        for pod in self.api.pods.values():
            if pod.node is not None and not pod.phase.ended:
                used[pod.node] = used.get(pod.node, 0) + _gpus(pod.demand)
        return used

    def _free(self, name: str | None, used: dict[str, int]) -> int:
        node = self.api.nodes.get(str(name))
        return (
            dict(node.capacity)[GPU] - used.get(node.name, 0) if node is not None and node.schedulable else -1
        )

    # ── kubelets and controllers ────────────────────────────────────────────────────────────────────────

    def _run_pods(self) -> None:
        self.api.run_pods()
        self.api.binds.clear()

    def _control(self) -> None:
        """Pods of an owner that are missing are made again, until their gang ends."""
        for living in self.living.values():
            keys = living.keys = {key for key in living.keys if key in self.api.pods}
            controller = self.api.controllers.get(living.owner.uid) if living.owner is not None else None
            if living.ending or living.owner is None:
                continue
            if controller is not None and controller.suspended:
                for key in keys:
                    self.api.delete(key)
            elif living.draft.fate is not Fate.HALF:
                self._members(living, living.draft.size - len(keys))

    def _members(self, living: Living, count: int) -> None:
        for _ in range(count):
            pod = self.api.create(living.template(f"{living.gang}-{living.born}"))
            living.keys.add(pod.key)
            living.born += 1

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────

    def _make(self, one: Draft) -> None:
        named = GangKey(one.namespace, one.name)
        gang = one.name if named not in self.living else f"{one.name}-{one.number}"
        owner = an_owner(one.owner, f"{gang}.{one.number}") if one.owner else None
        own = one.fate is Fate.GROUPED
        membership = a_membership(
            gang,
            None if own else one.size,
            namespace=one.namespace,
            said_by="coscheduling" if own else "gangwright",
            runtime=one.declared,
            give_way=GiveWay.SUSPEND if one.fate is Fate.SUSPENDS else None,
        )
        lone = one.fate is Fate.SIDE and one.size == 1
        each: dict[str, Any] = {
            "namespace": one.namespace,
            "membership": None if lone else membership,
            "priority": 10 if one.fate is Fate.URGENT else 0,
            "gated": one.fate is not Fate.SIDE,
            "owner": owner,
            "gpu": GPUS + 1 if one.fate is Fate.NEVER else 1,
            "cpu": 1 + one.number % 4,
        }
        living = Living(one, gang, owner, lambda name: a_pod(name, **each), self.now)
        self.living[GangKey(one.namespace, gang)] = living
        if owner is not None:
            keep = Controller(owner, one.size, living.template, namespace=one.namespace)
            self.api.control(keep)
        if own:
            group = Group(GangKey(one.namespace, gang), "coscheduling", {"": one.size})
            self.api.feed.append(ev.GroupSeen(group))
        if one.number % 50 == 0:
            self.api.feed.append(ev.QuotaSeen(Quota(one.namespace, gang, ((GPU, 64),), ())))
            self.api.put_budget(Budget(one.namespace, gang, (), 1))
        self._members(living, one.size // 2 if one.fate is Fate.HALF else one.size)

    def _end(self) -> None:
        for key, living in list(self.living.items()):
            pods = [self.api.pods[own] for own in living.keys if own in self.api.pods]
            runs = len(pods) == living.draft.size and all(pod.phase is Phase.RUNNING for pod in pods)
            if runs and living.ends == float("inf"):
                living.ends = self.now + living.draft.runs
            short = 3.0 if living.draft.fate is Fate.HALF else PATIENCE
            over = (
                self.now >= living.ends
                or self.now >= living.since + short
                or (not pods and living.owner is None)
            )
            if over and not living.ending:
                living.ending = True
                self._finish(living, pods)
            elif living.ending:
                self._take_away(key, living, pods)

    def _finish(self, living: Living, pods: list[Pod]) -> None:
        phase = Phase.FAILED if living.draft.fate is Fate.FAILS else Phase.SUCCEEDED
        for pod in pods:
            if pod.phase is Phase.RUNNING and not pod.deleting:
                self.api.write(replace(pod, phase=phase))

    def _take_away(self, key: GangKey, living: Living, pods: list[Pod]) -> None:
        """The second after its end: its pods, then what was made beside them."""
        for pod in pods:
            self.api.delete(pod.key)
        if any(own in self.api.pods for own in living.keys):
            return
        del self.living[key]
        one = living.draft
        if living.owner is not None:
            self.api.uncontrol(living.owner)
            if self.api.owners.pop(living.owner.uid, None) is not None:
                self.api.feed.append(ev.OwnerGone(living.owner.uid))
        if one.fate is Fate.GROUPED:
            self.api.feed.append(ev.GroupGone("coscheduling", key))
        if one.number % 50 == 0:
            self.api.feed.append(ev.QuotaGone(one.namespace, living.gang))
            self.api.delete_budget(Budget(one.namespace, living.gang, (), 1))

    # ── accidents ───────────────────────────────────────────────────────────────────────────────────────

    def _break(self) -> None:
        """The room of a member that was let go is taken by another scheduler; of its gang once."""
        for living in self.living.values():
            if living.draft.fate is not Fate.BROKEN or living.broken:
                continue
            for key in living.keys:
                pod = self.api.pods.get(key)
                if pod is not None and pod.node is None and pod.pinned is not None:
                    living.broken = True
                    self._steal(pod.pinned)
                    break

    def _steal(self, node: str) -> None:
        left = self._free(node, self._used())
        if left > 0:
            name = f"stranger-{self.api.version}"
            pod = self.api.create(a_pod(name, scheduler="other", node=node, gated=False, gpu=left))
            self.strangers[pod.key] = self.now + 10.0

    def _machines(self) -> None:
        """Strangers go again. Now and then a machine goes, and one of another name comes."""
        for key, until in list(self.strangers.items()):
            if self.now >= until or key not in self.api.pods:
                self.api.delete(key)
                del self.strangers[key]
        if self.now % 30 == 0:
            number = int(self.now / 30) % NODES
            gone = sorted(self.api.nodes)[number]
            self.api.delete_node(gone)
            self._node(number)

    def _node(self, number: int) -> None:
        self._ages += 1
        node: Node = a_node(f"n{self._ages}", gpu=GPUS, cpu=64, rack=f"r{number % 4}", area="a")
        self.api.put_node(node)


def _gpus(demand: Demand) -> int:
    return dict(demand.requests).get(GPU, 0)
