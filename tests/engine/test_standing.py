"""Answers that hold from pass to pass: the engine says and does the same as if it asked about every gang."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from scheduler.engine import Engine, equivalence, preemption_candidates, scheduling_queue, standing
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.demand import Toleration
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Share
from scheduler.model.workload import GangKey, Phase, Pod, PodKey, Strategy
from scheduler.placement import planner
from scheduler.placement.standing_answers import StandingAnswers
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod
from tests.engine.support.untrue import untrue_answers, untrue_ends
from tests.support.builders import GPU, a_node, a_taint

STEPS = 40
OTHERS = {"hugepages-2Mi": 2}
"""What some nodes have, and pods of all nodes request."""

State = dict[str, tuple[object, ...]]


class Story:
    """Nodes come, go, are relabeled and cordoned; pods run, end and are deleted; gangs arrive. Seats are taken at once."""

    def __init__(self, seed: int, policy: Policy) -> None:
        self.chance, self.apart = random.Random(seed), random.Random(seed)
        self.engine = Engine(policy)
        self.now = 100.0
        self.nodes: dict[str, Node] = {}
        self.running: dict[str, Pod] = {}
        self.waiting: dict[str, list[Pod]] = {}
        self.number = 0
        for _ in range(8):
            self.another_node()
        for _ in range(6):
            self.gang_arrives()
        self.engine.observe([ev.Synced(), ev.TookOver()], self.now)

    def told(self) -> Iterator[State]:
        """After each step, what each gang was told, and where its members sit."""
        acts = [self.another_node, self.node_changes, self.gang_arrives, *[self.pod_ends] * 6]
        for _ in range(STEPS):
            self.now += self.chance.choice([0.1, 1.0, 10.0])
            self.chance.choice(acts)()
            for _ in islice(self.engine.prepare(self.now), self.apart.randint(0, 5)):
                pass  # what is left is for the pass
            self.engine.plan(self.now)
            assert untrue_answers(self.engine) == []
            assert untrue_ends(self.engine, self.now) == []
            yield {str(key): _state(record) for key, record in self.engine.ledger.registry.gangs.items()}
            self.seats_are_taken()

    def another_node(self) -> None:
        self.number += 1
        node = a_node(
            f"n{self.number:03}",
            cpu=self.chance.randint(2, 8),
            gpu=self.chance.randint(1, 4),
            more=OTHERS if self.number % 7 == 0 else None,
            rack=self.chance.choice(["r0", "r1", None]),
            area=self.chance.choice(["a0", "a1"]),
            taints=self.chance.choice([(), (), (a_taint("own"),)]),
        )
        self.nodes[node.name] = node
        self.engine.observe([ev.NodeSeen(node)], self.now)
        for number in range(dict(node.capacity)[GPU]):
            name, more = f"run-{node.name}-{number}", OTHERS if number == 2 else None
            pod = a_pod(name, gpu=1, cpu=1, more=more, node=node.name, namespace="red")
            self.runs(pod, node.name)

    def runs(self, pod: Pod, node: str) -> None:
        seated = replace(pod, node=node, gated=False, phase=Phase.RUNNING, bound_at=self.now)
        self.running[pod.uid] = seated
        self.engine.observe([ev.PodSeen(seated)], self.now)

    def node_changes(self) -> None:
        name = self.chance.choice(list(self.nodes))
        node = self.nodes[name]
        how = self.chance.choice(["cordon", "label", "gone"])
        if how == "gone" and len(self.nodes) > 4:
            del self.nodes[name]
            for uid, pod in list(self.running.items()):
                if pod.node == name:
                    del self.running[uid]
                    self.engine.observe([ev.PodGone(pod.uid, pod.key)], self.now)
            self.engine.observe([ev.NodeGone(name)], self.now)
            return
        changed = replace(node, schedulable=not node.schedulable)
        if how != "cordon":
            rack = {"gangwright.io/rack": self.chance.choice(["r0", "r2"])}
            changed = replace(node, labels={**node.labels, **rack})
        self.nodes[name] = changed
        self.engine.observe([ev.NodeSeen(changed)], self.now)

    def gang_arrives(self) -> None:
        self.number += 1
        name, chance = f"g{self.number}", self.chance
        wish = {
            "strategy": chance.choice([*Strategy, None]),
            "level": chance.choice(["host", "rack", "area"]),
            "required": chance.random() < 0.5,
            "runtime": chance.choice([5.0, 50.0, 500.0]),
        }
        each = {
            "namespace": chance.choice(["red", "blue"]),
            "created": self.now,
            "priority": chance.choice([0, 0, 0, 1]),
        }
        if chance.random() < 0.4:
            quorum = {"launcher": 1, "worker": chance.randint(1, 4)}
            said = {"namespace": each["namespace"], **wish}
            roles = ["launcher", *["worker"] * quorum["worker"]]
            gpu = chance.randint(1, 3)
            pods = [
                a_pod(
                    f"{name}-{number}",
                    membership=a_membership(name, quorum, role=role, **said),
                    gpu=gpu if role == "worker" else 0,
                    cpu=1,
                    **each,
                )
                for number, role in enumerate(roles)
            ]
        else:
            pods = a_gang_of_pods(name, chance.randint(1, 5), gpu=chance.randint(1, 3), wish=wish, **each)
        if chance.random() < 0.3:
            own = (Toleration("own", exists=True),)
            pods = [replace(pod, demand=replace(pod.demand, tolerations=own)) for pod in pods]
        self.waiting[name] = pods
        self.engine.observe(map(ev.PodSeen, pods), self.now)

    def pod_ends(self) -> None:
        for uid in self.chance.sample(
            sorted(self.running), k=min(len(self.running), self.chance.choice([1, 1, 3]))
        ):
            pod = self.running.pop(uid)
            gone = self.chance.random() < 0.5
            ended = ev.PodGone(pod.uid, pod.key) if gone else ev.PodSeen(replace(pod, phase=Phase.SUCCEEDED))
            self.engine.observe([ended], self.now)

    def seats_are_taken(self) -> None:
        for name, pods in list(self.waiting.items()):
            record = self.engine.ledger.registry.gangs.get(GangKey(pods[0].key.namespace, name))
            if record is None or not any(member.hold for member in record.members.values()):
                continue
            held = {uid: member.hold.node for uid, member in record.members.items() if member.hold}
            for pod in pods:
                if pod.uid in held:
                    self.runs(pod, held[pod.uid])
            self.waiting[name] = [pod for pod in pods if pod.uid not in held]
            if not self.waiting[name]:
                del self.waiting[name]


def _state(record) -> tuple[object, ...]:
    seats = {
        uid: member.hold.node if member.hold else member.pod.node for uid, member in record.members.items()
    }
    return record.state, record.verdict.decision, seats


POLICIES = [
    *(Policy(backfill=backfill) for backfill in Backfill),
    Policy(order=Order.FAIR),
    Policy(preemption=False),
    Policy(shares={"red": Share(guaranteed=((GPU, 4),), ceiling=((GPU, 20),))}),
]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
@pytest.mark.parametrize("seed", range(12))
def test_each_is_told_what_a_question_would_tell(monkeypatch, policy, seed):
    """Beside an engine that keeps no answer, step by step: the same seats, reasons and figures for every gang."""
    monkeypatch.setattr(
        equivalence, "size_of", lambda _gang, _number: None
    )  # figures of less are not their own
    monkeypatch.setattr(scheduling_queue, "FIRST", 1_000)  # questions that are saved leave more turns
    monkeypatch.setattr(standing, "PORTION", 2)
    mine = Story(seed, policy)
    quick = list(mine.told())
    monkeypatch.setattr(
        equivalence.Shapes, "number", lambda *_: None
    )  # each gang is asked about, whatever is known
    slow = list(Story(seed, policy).told())

    for step, (one, other) in enumerate(zip(quick, slow, strict=True)):
        assert one == other, f"step {step}"


def unlike() -> list[Pod]:
    """Thirty gangs of as many shapes."""
    return [
        pod
        for number in range(30)
        for pod in a_gang_of_pods(f"w{number}", 9, gpu=1, cpu=1 + number / 100, created=float(number))
    ]


def test_a_pass_over_unlike_gangs_asks_the_planner_about_none(monkeypatch):
    """One device of a full cluster comes back: thirty gangs of as many shapes are told so, without a question."""
    story = Story(1, Policy(backfill=Backfill.FREE))
    story.engine.observe(map(ev.PodSeen, unlike()), story.now)
    story.engine.plan(story.now)
    asked: list[object] = []
    monkeypatch.setattr(planner, "decide", lambda _snapshot, gang, *_: asked.append(gang))
    story.pod_ends()
    story.engine.plan(story.now + 1)

    assert asked == []


@pytest.mark.parametrize("backfill", [Backfill.FREE, Backfill.RESERVE])
def test_answers_are_renewed_in_portions_before_a_question(monkeypatch, backfill):
    """A device comes back, then a node: each portion renews few answers, and the pass after them none."""
    monkeypatch.setattr(standing, "PORTION", 4)
    renewed = []
    answer = StandingAnswers._answer
    monkeypatch.setattr(StandingAnswers, "_answer", lambda *args: renewed.append(args[1]) or answer(*args))
    story = Story(1, Policy(backfill=backfill))
    story.engine.observe(map(ev.PodSeen, unlike()), story.now)
    for happens in (story.engine.plan, lambda _: story.pod_ends(), lambda _: story.another_node()):
        happens(story.now)
        story.engine.plan(story.now)

    def portions() -> list[int]:
        found = []
        for _ in story.engine.prepare(story.now):
            found.append(len(renewed))
            renewed.clear()
        return found

    node = replace(next(iter(story.nodes.values())), labels={"colour": "red"})
    for event in (ev.PodGone(next(iter(story.running)), PodKey("red", "gone")), ev.NodeSeen(node)):
        story.engine.observe([event], story.now)
        renewed.clear()
        found = portions()
        assert max(found) < 2 * standing.PORTION
        assert sum(found) + len(renewed) >= 30
        renewed.clear()
        assert portions() == []
        story.engine.ask(story.now)
        assert renewed == []


def test_portions_end_while_answers_go_stale(monkeypatch):
    """Something happens after each portion: the questions are asked all the same."""
    monkeypatch.setattr(standing, "PORTION", 1)
    story = Story(1, Policy(backfill=Backfill.FREE))
    for number in range(20):
        story.engine.observe(
            map(ev.PodSeen, a_gang_of_pods(f"w{number}", 9, gpu=1, cpu=1 + number / 100)), story.now
        )
    story.engine.plan(story.now)
    portions = 0
    story.pod_ends()
    for _ in story.engine.prepare(story.now):
        portions += 1
        story.another_node()
    assert 2 < portions < 200
    assert untrue_answers(story.engine) == []


def test_no_answer_is_renewed_while_no_gang_waits(monkeypatch):
    """The gangs that waited are deleted. What running pods free then concerns no gang."""
    story = Story(1, Policy(backfill=Backfill.FREE))
    story.engine.observe(map(ev.PodSeen, unlike()), story.now)
    story.engine.plan(story.now)
    gone = [pod for record in list(story.engine.ledger.pending.queue()) for pod in record.members.values()]
    story.engine.observe([ev.PodGone(member.pod.uid, member.pod.key) for member in gone], story.now)
    story.engine.plan(story.now)
    assert not story.engine.ledger.pending
    renewed: list[object] = []
    monkeypatch.setattr(StandingAnswers, "_answer", lambda *args: renewed.append(args[1]))
    story.pod_ends()
    list(story.engine.prepare(story.now))
    assert renewed == []


def test_a_node_that_comes_before_the_question_about_preemption_leaves_no_answer_of_earlier_domains():
    """A gang with a required spread over racks may preempt, and a node of another rack comes while running pods are read."""
    engine = Engine(Policy())
    nodes = [a_node(f"n{number}", gpu=2, rack=f"r{number}") for number in range(3)]
    runs = [
        replace(pod, gated=False, node=f"n{number % 3}", phase=Phase.RUNNING, bound_at=1.0)
        for number in range(6)
        for pod in a_gang_of_pods(f"run-{number}", 1, gpu=1)
    ]
    engine.observe([*map(ev.NodeSeen, nodes), *map(ev.PodSeen, runs), ev.Synced(), ev.TookOver()], 0.0)
    wish = {"strategy": Strategy.SPREAD, "level": "rack", "required": True}
    for name, priority in (("other", -1), ("urgent", 100)):
        pods = a_gang_of_pods(name, 4, gpu=1, wish=wish, priority=priority)
        engine.observe(map(ev.PodSeen, pods), 1.0)
    while engine.cycle.needy is None:
        question = engine.ask(1.0)
        assert question is not None
        engine.settle(question, engine.answer(question), 1.0)
    for _ in engine.prepare(1.0):
        pass
    engine.observe([ev.NodeSeen(a_node("n9", gpu=1, rack="r9"))], 2.0)
    question = engine.ask(2.0)
    assert question is not None
    assert question.making is not None
    engine.settle(question, engine.answer(question), 2.0)
    engine.plan(2.0)
    assert untrue_answers(engine) == []


class Walk(Story):
    """The same, with events between two portions, and between a question and its answer."""

    def told(self) -> Iterator[State]:
        acts = [self.another_node, self.node_changes, self.gang_arrives, *[self.pod_ends] * 6]
        for _ in range(STEPS // 2):
            self.now += self.chance.choice([0.1, 1.0, 10.0])
            self.chance.choice(acts)()
            for _ in range(6):
                for _ in islice(self.engine.prepare(self.now), self.chance.choice([0, 3, 10, 1000])):
                    if self.chance.random() < 0.15:
                        self.chance.choice(acts)()
                if (question := self.engine.ask(self.now)) is None:
                    break
                answer = self.engine.answer(question)
                if self.chance.random() < 0.1:
                    self.chance.choice(acts)()
                self.engine.settle(question, answer, self.now)
            yield {}
            self.seats_are_taken()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
@pytest.mark.parametrize("seed", range(6))
def test_what_happens_between_two_portions_makes_no_answer_untrue(monkeypatch, policy, seed):
    """Step by step, what is kept is what would be found now."""
    monkeypatch.setattr(equivalence, "size_of", lambda _gang, _number: None)
    monkeypatch.setattr(standing, "PORTION", 2)
    monkeypatch.setattr(standing, "DEMANDS", 1)
    monkeypatch.setattr(preemption_candidates, "PORTION", 4)
    walk = Walk(seed, policy)
    for _ in walk.told():
        assert untrue_answers(walk.engine) == []
        assert untrue_ends(walk.engine, walk.now) == []
