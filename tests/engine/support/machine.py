"""Everything that may happen around the engine, and what must be true after every step of it.

A hypothesis state machine over the fake world; `walks` drives the same rules by plain chance.
"""

from collections.abc import Container
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.ledger.gang import GangRecord, Spec
from scheduler.model.decision import Reason
from scheduler.model.queueing import Backfill, Order
from scheduler.model.verbs import Allowed, Failed, FilterCall, Refused
from scheduler.model.workload import GangKey, Phase, Pod, PodKey, Uid
from tests.engine.support import accountant, kept
from tests.engine.support.api import Controller
from tests.engine.support.cast import OURS, a_membership, a_pod, an_owner, traits_of
from tests.engine.support.untrue import untrue_answers, untrue_ends
from tests.engine.support.wishes import (
    GOINGS,
    MISHAPS,
    NEIGHBORS,
    OUTCOMES,
    SPANS,
    Rules,
    Wanted,
    few,
    rules,
    wanted,
)
from tests.engine.support.witness import Witness, used
from tests.engine.support.world import World
from tests.ledger.support.invariants import broken
from tests.support.builders import GPU, RACK, a_node

AFTER_FAULTS = 400.0
"""Seconds until everybody is seated, rolled back or shown waiting: several back-offs and bars."""


def _maker(pod: Pod) -> str:
    """Who made the pod: its controller, or a person who numbers pods."""
    return pod.owner.uid if pod.owner else pod.key.name.rpartition("-")[0]


def _there(record: GangRecord) -> int:
    return sum(m.bound or m.pod.phase is Phase.SUCCEEDED for m in record.members.values())


def _made(each: dict[str, Any], name: str) -> Pod:
    return a_pod(name, **each)


class Gangs(RuleBasedStateMachine):
    """Everything that may happen around the engine."""

    @initialize(
        gpus=st.lists(st.integers(1, 4), min_size=2, max_size=4),
        two=st.integers(0, 4),
        first=st.lists(wanted, min_size=1, max_size=3),
        laid=rules,
    )
    def begin(self, gpus: list[int], two: int, first: list[Wanted], laid: Rules) -> None:
        nodes = [
            a_node(f"n{number}", gpu=gpu, rack=f"r{number % 2}", area="a") for number, gpu in enumerate(gpus)
        ]
        self.nodes = {node.name: node for node in nodes}
        self.policy = laid.policy()
        self.world = World(nodes, self.policy, two=two == 0)
        self.witness = Witness(self.world)
        self.grace: dict[str, float] = {}
        self.world.api.grace = lambda pod: self.grace.get(_maker(pod), 0.0)
        self.born = 0
        self.raced: dict[str, int] = {}
        self.late: set[Uid] = set()
        """Pods that were bound to seats which they had lost."""
        self.outbid: set[str] = set()
        """Nodes of which somebody took room that was leased."""
        self.let_go: dict[GangKey, tuple[float, set[Uid]]] = {}
        self.world.checked = self.nobody_holds_in_vain
        self.world.api.watched = self._bound
        for one in first:
            self._submit(one)

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────

    @rule(one=wanted)
    def submit(self, one: Wanted) -> None:
        if len(self.world.api.pods) < 16:
            self._submit(one)

    def _submit(self, one: Wanted) -> None:
        self.born += not one.reuse or self.born == 0
        name = f"g{self.born}"
        total = one.count + one.spare
        size = None if one.short is None else max(1, total - one.short)
        membership = a_membership(
            name,
            min(one.count, size or one.count),
            namespace=one.namespace,
            size=size,
            pin=one.pin,
            strategy=one.strategy,
            required=one.required,
            runtime=one.runtime,
            max_runtime=one.max_runtime,
            give_way=one.give_way,
        )
        number = len(self.world.api.feed)
        owner = an_owner(one.kind, f"{name}-{number}") if one.kind else None
        each = {
            "membership": None if total == 1 and one.short else membership,
            "priority": one.priority,
            "gated": one.gated,
            "owner": owner,
            "gpu": one.gpu,
            "cpu": one.cpu,
            "namespace": one.namespace,
            "preempts": one.preempts,
            "neighbors": NEIGHBORS[one.label],
            "labels": f"is={one.label}" if one.label else "",
        }
        self.grace[owner.uid if owner else f"{name}-{number}"] = one.grace
        if owner is not None and (one.kind != "Job" or one.give_way):
            keeps = one.kind == "StatefulSet"
            template = partial(_made, each)
            self.world.control(Controller(owner, total, template, keeps, namespace=one.namespace))
            return
        if owner is not None:
            self.world.api.put_owner(traits_of(owner, one.namespace))
        self.world.submit([a_pod(f"{name}-{number}-{i}", **each) for i in range(total)])

    @rule(what=st.sampled_from(GOINGS), which=st.integers(0, 15))
    def pods_go(self, what: str, which: int) -> None:
        own = [pod for pod in self.world.api.pods.values() if pod.scheduler == OURS]
        running = [pod for pod in own if pod.phase is Phase.RUNNING]
        some = own if what.startswith("delete") else running
        if not some:
            return
        pod = some[which % len(some)]
        if what == "delete":
            self.world.api.delete(pod.key)
        elif what == "delete all":
            if pod.owner is not None:
                self.world.api.uncontrol(pod.owner)
            for other in own:
                if other.membership == pod.membership and other.owner == pod.owner:
                    self.world.api.delete(other.key)
        else:
            self.world.api.write(replace(pod, phase=Phase.SUCCEEDED if what == "succeed" else Phase.FAILED))

    @rule(which=few)
    def resume(self, which: int) -> None:
        """Somebody resumes a Job that is suspended, whoever suspended it."""
        jobs = [own for own in self.world.api.controllers.values() if own.suspended]
        if jobs:
            self.world.api.set_suspended(jobs[which % len(jobs)].owner, suspended=False)

    # ── machines ────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        what=st.sampled_from(MISHAPS),
        which=few,
        gpu=st.integers(1, 2),
    )
    def machines(self, what: str, which: int, gpu: int) -> None:
        api, name = self.world.api, sorted(self.nodes)[which % len(self.nodes)]
        match what:
            case "lose":
                api.delete_node(name)
            case "return" if name not in api.nodes:
                api.put_node(self.nodes[name])
            case "cordon" | "uncordon":
                api.cordon(name, off=what == "cordon")
            case "move" | "note" if name in api.nodes:
                key = RACK if what == "move" else "example.com/note"
                api.put_node(
                    replace(api.nodes[name], labels={**api.nodes[name].labels, key: f"r{which % 3}"})
                )
            case "steal" if name in api.nodes and len(api.pods) < 20:
                self.world.steal(name, gpu=gpu)
                self.raced[name] = len(api.feed)
            case "give back":
                strangers = [pod for pod in api.pods.values() if pod.scheduler != OURS]
                for stranger in strangers[:1]:
                    api.remove(stranger.key)
            case "protect":
                api.protected.update(pod.uid for pod in list(api.pods.values())[: which + 1])
            case "up" | "down":
                api.up = what == "up"

    # ── the service ─────────────────────────────────────────────────────────────────────────────────────

    @rule(count=st.sampled_from([1, 2, 4, 20, 20]), coalesced=st.booleans(), look=st.booleans())
    def watch(self, count: int, coalesced: bool, look: bool) -> None:
        self.world.watch(count, coalesced=coalesced, look=look)

    @rule(look=st.booleans())
    def plan(self, look: bool) -> None:
        """Plans are made on, with news taken in and not looked at, or after a look."""
        if look:
            self.world.look()
        else:
            self.world.plan()

    @rule(
        which=few,
        outcome=st.sampled_from(OUTCOMES),
        times=st.sampled_from([1, 1, 2]),
        count=st.integers(1, 6),
    )
    def carry_out(self, which: int, outcome: str, times: int, count: int) -> None:
        for _ in range(count):
            self.world.carry_out(which, outcome=outcome, times=times)

    @rule(count=st.sampled_from([1, 2, 20]), look=st.booleans())
    def report(self, count: int, look: bool) -> None:
        self.world.report(count, look=look)

    @rule()
    def think(self) -> None:
        if self.world.thinking:
            self.world.conclude()
        else:
            self.world.think()

    @rule(really=st.sampled_from([False, False, True]), under_way=st.integers(0, 3))
    def crash(self, really: bool, under_way: int) -> None:
        """I6: what was persisted is not forgotten."""
        if not really:
            self.world.arrive()
            return
        persisted = self._persisted()
        self.world.crash(under_way=under_way)
        self.let_go.clear()
        gangs = self.world.engine.ledger.registry.gangs.values()
        self.late |= {uid for r in gangs for uid, m in r.members.items() if m.hold is not None}
        for uid, node in persisted.items():
            there = self.world.api.nodes.get(node)
            member = self.world.engine.ledger.registry.member(uid)
            assert member is not None
            closed = there is None or not there.schedulable or member.pod.demand.untolerated(there.taints)
            if node in self.raced or closed:
                continue
            assert member.hold is not None, f"the seat of {uid} on {node} was persisted and is forgotten"
            assert member.hold.node == node

    @rule(seconds=st.sampled_from(SPANS))
    def time_goes_by(self, seconds: float) -> None:
        """An outage of the API server ends with it. A seat that is no plan's may end before the bind is seen."""
        for pod in accountant.unknown_binds(self.world.api, self.world.engine):
            hold = self.world.member(pod).hold
            if pod.pinned is None or (hold is not None and hold.until is not None):
                self.raced[str(pod.node)] = len(self.world.api.feed)
        self.world.advance(seconds)
        self.world.api.up = True

    @rule(rounds=st.integers(1, 3))
    def everything(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.step()

    @rule(controllers=st.booleans())
    def cluster(self, controllers: bool) -> None:
        self.world.api.run_pods()
        if controllers:
            self.world.api.run_controllers()

    # ── kube-scheduler ──────────────────────────────────────────────────────────────────────────────────

    @rule(which=few, count=st.integers(1, 4))
    def cycle(self, which: int, count: int) -> None:
        for _ in range(count):
            queue = self.world.scheduler.queue()
            if queue:
                self.world.scheduler.cycle(queue[which % len(queue)])

    @rule(well=st.sampled_from([True, True, True, False]), count=st.integers(1, 4))
    def bind(self, well: bool, count: int) -> None:
        for _ in range(count):
            if self.world.scheduler.binding:
                self.world.scheduler.bind_next(well=well)

    def _bound(self, pod: Pod, node: str) -> None:
        """I7: a pinned pod goes to a seat that was kept for it; a nominated one may be late."""
        registry = self.world.engine.ledger.registry
        member = registry.member(pod.uid)
        held = member is not None and member.hold is not None and member.hold.node == node
        if not held or pod.uid in accountant.leased(registry.gangs[registry.gang_of[pod.uid]]):
            lost = pod.pinned is None or node in self.raced or (member is not None and member.evicting)
            assert lost, f"{pod.key} was bound and its seat was not held"
            self.raced[node] = len(self.world.api.feed)
            self.late.add(pod.uid)

    @rule(which=few, alone=st.booleans())
    def ask_twice(self, which: int, alone: bool) -> None:
        """I12: the same question has the same answer, if not always for the same reason, and nothing is done twice."""
        queue = self.world.scheduler.queue()
        if not queue:
            return
        pod = queue[which % len(queue)]
        names = self.world.scheduler.fitting(pod)
        if alone and pod.nominated in names:
            names = (str(pod.nominated),)
        if not names:
            return
        call = FilterCall(pod.uid, pod.key, pod.scheduler, pod.native_group, names)
        self.world.filter(call)
        self.world.plan()  # a verb asks a few questions at most, and others may come before its own
        first = self.world.filter(call)
        size, said = accountant.residue(self.world.engine), len(self.world.said)
        again = self.world.filter(call)
        assert again == first or {type(again), type(first)} == {Refused}
        assert accountant.residue(self.world.engine) == size
        assert self.world.said[said:] == [], "the same question twice made us do something twice"

    @precondition(lambda self: self.world.calls)
    @rule(which=st.integers(0, 31))
    def ask_late(self, which: int) -> None:
        """A call of long ago is answered, and leaves nothing behind when its pod is gone."""
        call = self.world.calls[which % len(self.world.calls)]
        known = self.world.engine.ledger.registry.knows(call.uid)
        size = accountant.residue(self.world.engine)
        answer = self.world.filter(call)
        if isinstance(answer, Allowed):
            assert set(answer.nodes) <= set(call.candidates)
        if not known:
            assert answer == Failed(Reason.POD_NOT_CACHED)
            assert accountant.residue(self.world.engine) == size

    @rule(some=st.integers(0, 15), native=st.booleans())
    def ask_for_a_stranger(self, some: int, native: bool) -> None:
        """I15: pods of others are echoed."""
        names = tuple(n for i, n in enumerate([*sorted(self.nodes), "unknown"]) if some >> i & 1)
        call = FilterCall("x", PodKey("default", "x"), OURS if native else "other", native, names)
        answer = self.world.filter(call)
        assert isinstance(answer, Allowed)
        assert answer.nodes == names

    def check(self) -> None:
        """All invariants at once."""
        self.books_are_right()
        self.nothing_is_overdrawn()
        self.nobody_is_above_a_ceiling()
        self.nobody_holds_in_vain()
        self.answers_that_stand_are_true()

    # ── what must be true ───────────────────────────────────────────────────────────────────────────────

    @invariant()
    def books_are_right(self) -> None:
        if hasattr(self, "world"):
            assert broken(self.world.engine.ledger) == []
            assert kept.wrong(self.world.engine) == []

    @invariant()
    def nothing_is_overdrawn(self) -> None:
        """I1"""
        if not hasattr(self, "world"):
            return
        for pod in accountant.unknown_binds(self.world.api, self.world.engine):
            self._bound(pod, str(pod.node))
        over = accountant.overdrawn(self.world.api, self.world.engine)
        assert not over.keys() - self.raced.keys(), over
        leases = accountant.leases(self.world.api, self.world.engine)
        promised = accountant.above(self.world.api, leases)
        self.outbid |= self.raced.keys()
        assert not promised.keys() - self.outbid, f"leased beyond what will be free: {promised}"
        self.outbid &= promised.keys() | self.raced.keys()
        assumed = {node for _, node in self.world.scheduler.assumed.values()}
        for name, since in list(self.raced.items()):
            healed = name not in over and name not in assumed and name in self.world.api.nodes
            if healed and self.world.seen >= since:
                del self.raced[name]

    @invariant()
    def nobody_is_above_a_ceiling(self) -> None:
        """Seats that we keep never take a namespace above its ceiling; what others bind may."""
        if not hasattr(self, "world"):
            return
        for name, share in self.policy.shares.items():
            most = dict(share.ceiling).get(GPU)
            in_use = used(self.world.engine, name, but=self.late)
            assert most is None or in_use <= most, f"{name} is above its ceiling"

    @invariant()
    def answers_that_stand_are_true(self) -> None:
        """What is known of waiting and of running gangs without looking at them is what is true of them now."""
        if hasattr(self, "world"):
            assert untrue_answers(self.world.engine) == []
            assert untrue_ends(self.world.engine, self.world.now) == []

    @invariant()
    def nobody_holds_in_vain(self) -> None:
        """I2"""
        if not hasattr(self, "world"):
            return
        for at, effect in self.world.api.ungated:
            self.let_go.setdefault(effect.gang, (at, set()))[1].add(effect.uid)
        self.world.api.ungated.clear()
        gangs = self.world.engine.ledger.registry.gangs
        for key, (since, uids) in list(self.let_go.items()):
            record = gangs.get(key)
            if record is None or not (accountant.holding(record) & uids):
                del self.let_go[key]
            elif all(m.pod.gated for uid, m in record.members.items() if uid in uids):
                self.let_go[key] = (
                    self.world.now,
                    uids,
                )  # a PATCH of an earlier try came true late and unseen
            else:
                assert self.world.now <= since + self.policy.timeout + 1, f"{key} holds seats since {since}"

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.api.up = True
        self.world.api.protected.clear()
        for name, node in self.nodes.items():
            if self.world.api.nodes.get(name) != node:
                self.world.api.put_node(node)
        self.world.settle(AFTER_FAULTS)
        self._everybody_is_somewhere()
        self._nobody_is_left()

    def _everybody_is_somewhere(self) -> None:
        """I3, I4, I6: whole, rolled back, waiting for what is not there, or shown in part."""
        ledger = self.world.engine.ledger
        assert broken(ledger) == []
        assert accountant.overdrawn(self.world.api, self.world.engine) == {}
        if self.policy.order is not Order.LAS:  # then turns are taken for ever
            assert not ledger.freeing, f"room is still being made: {ledger.freeing}"
            assert not [t for t in ledger.owners.values() if t.paused], "a Job is still suspended by us"
        torn = [
            key
            for key, record in ledger.registry.gangs.items()
            if isinstance(record.spec, Spec) and 0 < _there(record) < record.spec.total
            if any(m.bound for m in record.members.values())
        ]
        told = {reason for (_, reason), _ in ledger.gang_counts().items()}
        assert not torn or Reason.PARTIALLY_BOUND.value in told, f"{torn} are in part and nobody is told"
        self._everybody_waits_for_something()

    def _everybody_waits_for_something(self) -> None:
        """I4: who would fit waits for nothing but a turn, which the policy gives to somebody who does not."""
        first: GangRecord | None = None
        for record in self._queue():
            waiting = [m.pod for m in record.live() if m.pod.node is None and not m.pod.held_back]
            missing = record.spec.total - _there(record)
            ruled = any(m.pod.labels or m.pod.neighbors for m in record.live())  # `patience` asks the planner
            if len(waiting) < missing or record.spec.wish.required or record.pinning.barred_nodes or ruled:
                first = first or record  # nobody here can say whether it fits
                continue
            if self._is_over_ceiling(record, waiting[0], missing):
                continue
            ahead, first = first, first or record
            fits = self._room(waiting[0]) >= missing
            if fits and ahead is not None and self.policy.backfill is not Backfill.FREE:
                told = (
                    record.verdict.decision.reason if record.verdict.decision is not None else Reason.QUEUED
                )
                strict = self.policy.backfill is Backfill.NONE
                assert strict or told is Reason.CAPACITY_RESERVED, (
                    f"{record.key} waits beside room for it: {record}"
                )
                continue
            assert not fits, f"{record.key} waits beside room for it: {record}"
            if ahead is None:
                could = self._room(waiting[0], without=self._lower(record)) >= missing
                assert not could, f"{record.key} waits, and nobody gives way: {record}"

    def _queue(self) -> list[GangRecord]:
        """Gangs with somebody to seat, in the order in which it is their turn."""
        gangs = self.world.engine.ledger.registry.gangs.values()
        lacking = [r for r in gangs if isinstance(r.spec, Spec) and _there(r) < r.spec.total]
        return sorted(lacking, key=lambda r: (r.wanted is None, r.order if r.wanted else ()))

    def _is_over_ceiling(self, record: GangRecord, pod: Pod, missing: int) -> bool:
        share = self.policy.shares.get(record.key.namespace)
        most = dict(share.ceiling).get(GPU) if share else None
        needs = used(self.world.engine, record.key.namespace) + missing * dict(pod.demand.requests)[GPU]
        return most is not None and needs > most

    def _lower(self, record: GangRecord) -> set[Uid]:
        """Pods of lower priority that could be asked to leave for this gang, if it may ask."""
        if not self.policy.preemption or not all(m.pod.preempts for m in record.live()):
            return set()
        gangs = self.world.engine.ledger.registry.gangs.values()
        ours = [m.pod for r in gangs if r.gives_way for m in r.live() if m.bound]
        others = [pod for pod in self.world.api.pods.values() if pod.scheduler != OURS]
        guarded = {name for name, share in self.policy.shares.items() if share.guaranteed}
        guarded -= {record.key.namespace}
        lower = {
            pod.uid
            for pod in ours + others
            if pod.priority < record.priority and pod.key.namespace not in guarded
        }
        whole = {r.key for r in gangs if all(m.pod.uid in lower for m in r.live() if m.bound)}
        gang_of = self.world.engine.ledger.registry.gang_of
        return {uid for uid in lower if uid not in gang_of or gang_of[uid] in whole}

    def _room(self, pod: Pod, without: Container[Uid] = ()) -> int:
        """How many pods like this the cluster could take in now, or were some others gone."""
        wants = [(name, amount) for name, amount in pod.demand.requests if name in {GPU, "cpu"} and amount]
        free = {name: dict(node.capacity) for name, node in self.world.api.nodes.items()}
        for uid, node, demand in accountant.placed(self.world.api, self.world.engine):
            for name, amount in demand.requests if node in free and uid not in without else ():
                free[node][name] = free[node].get(name, 0) - amount
        return sum(
            max(0, min(left.get(name, 0) // amount for name, amount in wants)) for left in free.values()
        )

    def _nobody_is_left(self) -> None:
        """I14: when all pods are gone the ledger is as empty as on its first day."""
        self.world.api.controllers.clear()
        for key in list(self.world.api.pods):
            self.world.api.remove(key)
        self.world.settle(1.0)
        assert set(accountant.residue(self.world.engine).values()) == {0}, accountant.residue(
            self.world.engine
        )
        assert self.world.engine.ledger.next_deadline() == float("inf")

    def _persisted(self) -> dict[str, str]:
        """Seats that the API server knows: of pods on their way to them, while the service still held them.

        A nomination that was given back a moment ago, and is not cleared yet, may cost a nominated pod its seat.
        """
        leased = {
            uid for r in self.world.engine.ledger.registry.gangs.values() for uid in accountant.leased(r)
        }
        out: dict[str, str] = {}
        stale: set[str | None] = set()
        nominated: set[str] = set()
        for pod in self.world.api.pods.values():
            member = self.world.engine.ledger.registry.member(pod.uid)
            held = member.hold.node if member is not None and member.hold is not None else None
            if pod.gated or pod.deleting or pod.node is not None or pod.uid in leased:
                continue
            if pod.nominated != held:
                stale.add(pod.nominated)
            if pod.seat is not None and held == pod.seat.node and held in {pod.pinned, pod.nominated}:
                out[pod.uid] = held
                nominated |= {pod.uid} if pod.pinned != held else set()
        return {uid: node for uid, node in out.items() if not (uid in nominated and node in stale)}
