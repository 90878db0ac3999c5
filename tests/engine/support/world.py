"""The engine in a world of its own: a fake API server, a fake kube-scheduler, and everything between them.

The world is deterministic: nothing happens but by a call, and time goes by `advance` alone.  What lies between
the engine and the cluster is here, one queue each, so that a test can delay, lose, double and reorder:

    api.feed ──watch──► engine ──effects, one line a pod──► api ──outcomes──► engine
                          ▲ filter, prioritize, preempt
                     kube-scheduler ──bind──► api
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from scheduler.engine import Answer as Made
from scheduler.engine import Engine, Question, decide
from scheduler.ledger.gang import GangRecord, Member
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.effects import Announce, Effect
from scheduler.model.policy import Policy
from scheduler.model.verbs import Allowed, Answer, FilterCall, PreemptCall, PrioritizeCall, Victims
from scheduler.model.workload import GangKey, Pod, Uid
from tests.engine.support.api import Controller, FakeApi, RefusalError
from tests.engine.support.cast import a_pod
from tests.engine.support.kube_scheduler import FakeScheduler

T = TypeVar("T")

CALM = 600.0
"""Seconds of the world's time that `settle` goes on for at most after the last fault."""

IDLE = 0.5
"""Seconds after which the service plans when nothing else wakes it."""


@dataclass
class Thought:
    """A decision that is being made elsewhere."""

    question: Question
    decision: Made


class Twins:
    """One engine, or two that are told the same and must do the same."""

    def __init__(self, policy: Policy, *, two: bool = False) -> None:
        self.all = [Engine(policy) for _ in range(1 + two)]

    @property
    def first(self) -> Engine:
        return self.all[0]

    def take(self, events: Sequence[ev.Event], now: float) -> None:
        for engine in self.all:
            engine.ledger.take(events, now)

    def look(self, now: float) -> list[Effect]:
        return self._same([engine.ledger.settle(now) for engine in self.all])

    def plan(self, now: float) -> list[Effect]:
        return self._same([engine.plan(now) for engine in self.all])

    def filter(self, call: FilterCall, now: float) -> tuple[Answer, list[Effect]]:
        return self._same([engine.filter(call, now) for engine in self.all])

    def prioritize(self, call: PrioritizeCall) -> list[int]:
        return self._same([engine.prioritize(call) for engine in self.all])

    def preempt(self, call: PreemptCall) -> dict[str, Victims]:
        return self._same([dict(engine.preempt(call)) for engine in self.all])

    def ask(self, now: float) -> list[Thought]:
        """The next question, answered but not settled; nobody is asked about until it is."""
        thoughts: list[Thought] = []
        for engine in self.all:
            question = engine.ask(now)
            if question is not None:
                engine.away = question
                thoughts.append(Thought(question, decide(question, engine.policy)))
        self._same([len(self.all) if thoughts else 0, len(thoughts)])
        self._same([repr((thought.question.gang, thought.decision)) for thought in thoughts] or [""])
        return thoughts

    def settle(self, thoughts: list[Thought], now: float) -> list[Effect]:
        pairs = zip(self.all, thoughts, strict=True)
        return self._same([e.settle(thought.question, thought.decision, now) for e, thought in pairs])

    def agree(self, asked: Callable[[Engine], T]) -> T:
        """What one of them answers; all of them say the same."""
        return self._same([asked(engine) for engine in self.all])

    @staticmethod
    def _same(results: list[T]) -> T:
        assert len({repr(result) for result in results}) == 1, f"equal input, unequal output: {results}"
        return results[0]


class World:
    """The cluster, kube-scheduler and the service, with their queues."""

    def __init__(self, nodes: Sequence[Node], policy: Policy | None = None, *, two: bool = False) -> None:
        self.policy = policy or Policy()
        self.two = two
        self.api = FakeApi()
        self.scheduler = FakeScheduler(self.api, self, self._saw)
        self.seen = 0
        """How much of the feed the service has been told of."""
        self.lines: dict[Uid, deque[Effect]] = {}
        """Effects on their way, one line a pod, as the service carries them out."""
        self.stray: list[Effect] = []
        """Calls of services that died meanwhile, still on their way."""
        self.outcomes: deque[ev.Event] = deque()
        self.thinking: list[Thought] = []
        self.calls: deque[FilterCall] = deque(maxlen=32)
        self.said: list[Effect] = []
        """Every effect the engine ever asked for."""
        self.scored: set[Uid] = set()
        self.lives = 0
        self.checked: Callable[[], None] = lambda: None
        """Called whenever the clock stops on its way."""
        self.began: Callable[[Engine], None] = lambda _engine: None
        """Called for every engine that begins to act, before it is told anything."""
        self.asked_for: Callable[[Effect], None] = lambda _effect: None
        """Called for every effect that an engine asks for."""
        self.engines = Twins(self.policy, two=two)
        for node in nodes:
            self.api.put_node(node)
        self.start()

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> float:
        return self.api.now

    @property
    def engine(self) -> Engine:
        return self.engines.first

    def record(self, gang: str, namespace: str = "default") -> GangRecord:
        return self.engine.ledger.registry.gangs[GangKey(namespace, gang)]

    def member(self, pod: Pod) -> Member:
        member = self.engine.ledger.registry.member(pod.uid)
        assert member is not None, f"{pod.key} is not known"
        return member

    def pods(self, gang: str, namespace: str = "default") -> list[Pod]:
        """The gang's pods in the cluster, in the order of their names."""
        key = GangKey(namespace, gang)
        named = (pod for pod in self.api.pods.values() if pod.membership and pod.membership.gang == key)
        return sorted(named, key=lambda pod: pod.key)

    def bound(self, gang: str, namespace: str = "default") -> list[Pod]:
        found = self.bound_by_gang().get(GangKey(namespace, gang), [])
        return sorted(found, key=lambda pod: pod.key)

    def bound_by_gang(self) -> dict[GangKey, list[Pod]]:
        """The bound pods of every gang that has one: a single look at the cluster."""
        found: dict[GangKey, list[Pod]] = {}
        for pod in self.api.pods.values():
            if pod.membership and pod.node is not None and not pod.phase.ended:
                found.setdefault(pod.membership.gang, []).append(pod)
        return found

    def announced(self, gang: str) -> list[tuple[float, Announce]]:
        return [(at, told) for at, told in self.api.announced if told.gang.name == gang]

    # ── the service ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Read the cluster and begin to act."""
        self.lives += 1
        self.seen = len(self.api.feed)
        self.began(self.engine)
        self.tell([*self.api.listing(), ev.Synced(), ev.TookOver()])

    def crash(self, *, under_way: int = 0) -> None:
        """The service is gone with all that it had in mind, and comes back knowing what the API server knows.

        under_way: so many of its calls have left already, and arrive after the new one has read the cluster.
        """
        self.stray += [line[0] for line in self.lines.values()][:under_way]
        self.lines.clear()
        self.outcomes.clear()
        self.thinking = []
        self.engines = Twins(self.policy, two=self.two)
        self.start()

    def arrive(self) -> bool:
        """A call of a service that is no more reaches the API server. Was there one?"""
        if not self.stray:
            return False
        with suppress(RefusalError):
            self.api.apply(self.stray.pop(0))
        return True

    def tell(self, events: Sequence[ev.Event], *, look: bool = True) -> None:
        """The service takes events in, and does what follows from them: at once, or when it next looks."""
        self.engines.take(list(events), self.now)
        if look:
            self.look()

    def look(self) -> None:
        """What follows from all that was taken in; then plans, as far as nobody is being thought about."""
        self._do(self.engines.look(self.now))
        self.plan()

    def plan(self) -> None:
        self._do(self.engines.plan(self.now))

    def adopt(self, policy: Policy) -> None:
        """The settings are read anew; a restart begins with them too."""
        self.policy = policy
        self._do(self.engines.agree(lambda engine: engine.observe([ev.PolicyChanged(policy)], self.now)))

    def drain(self, node: str) -> None:
        """Somebody has the node emptied."""
        _, effects = self.engines.agree(lambda engine: engine.drain(node, self.now))
        self._do(effects)

    def defrag(self) -> None:
        """A person has room made for the first gang that waits."""
        key = self.engines.agree(lambda engine: engine.first_waiting())
        if key is not None:
            found = self.engines.agree(lambda engine: engine.defrag(key))
            _, effects = self.engines.agree(lambda engine: engine.make_moves(found, self.now))
            self._do(effects)

    def think(self) -> None:
        """What was taken in is looked at, and the first question goes to another thread."""
        if not self.thinking:
            self._do(self.engines.look(self.now))
            self.thinking = self.engines.ask(self.now)

    def conclude(self) -> None:
        """Its answer comes back, however old the question is by now."""
        if self.thinking:
            thoughts, self.thinking = self.thinking, []
            self._do(self.engines.settle(thoughts, self.now))
            self.plan()

    def watch(self, count: int = 1_000_000, *, coalesced: bool = False, look: bool = True) -> bool:
        """The watch delivers up to `count` changes; coalesced, as a new list would tell them. Were there any?"""
        if not self.api.up or self.seen == len(self.api.feed):
            return False
        news = self.api.feed[self.seen : self.seen + count]
        self.seen += len(news)
        self.tell(list(_latest(news)) if coalesced else news, look=look)
        return True

    def carry_out(self, which: int = 0, *, outcome: str = "told", times: int = 1) -> bool:
        """The first effect of a line is done; its outcome is told later, twice, or never. Was there any?

        outcome: `told`, `lost`, `doubled`, `failed` (nothing was done), `unsure` (done, and told as failed).
        """
        if not self.lines:
            return False
        key = list(self.lines)[which % len(self.lines)]
        effect = self.lines[key].popleft()
        if not self.lines[key]:
            del self.lines[key]
        told: ev.Event = ev.EffectDone(effect)
        try:
            if outcome == "failed":
                raise RefusalError(ev.FailureKind.UNAVAILABLE)
            for _ in range(times):
                self.api.apply(effect)
        except RefusalError as refusal:
            told = ev.EffectFailed(effect, refusal.kind)
        if outcome == "unsure":
            told = ev.EffectFailed(effect, ev.FailureKind.UNAVAILABLE)
        self.outcomes.extend([told] * {"lost": 0, "doubled": 2}.get(outcome, 1))
        return True

    def report(self, count: int = 1_000_000, *, look: bool = True) -> bool:
        """Outcomes reach the engine. Were there any?"""
        told = [self.outcomes.popleft() for _ in range(min(count, len(self.outcomes)))]
        if told:
            self.tell(told, look=look)
        return bool(told)

    def _do(self, effects: list[Effect]) -> None:
        self.said += effects
        for effect in effects:
            self.asked_for(effect)
            self.lines.setdefault(effect.uid, deque()).append(effect)

    # ── kube-scheduler's questions ──────────────────────────────────────────────────────────────────────

    def filter(self, call: FilterCall) -> Answer:
        answer, effects = self.engines.filter(call, self.now)
        self._do(effects)
        return answer

    def prioritize(self, call: PrioritizeCall) -> list[int]:
        self.scored.add(call.uid)
        return self.engines.prioritize(call)

    def preempt(self, call: PreemptCall) -> dict[str, Victims]:
        return self.engines.preempt(call)

    def _saw(self, call: FilterCall, answer: Answer) -> None:
        self.calls.append(call)
        if isinstance(answer, Allowed):
            assert set(answer.nodes) <= set(call.candidates), "an answer names a node that was not offered"

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────

    def advance(self, seconds: float) -> None:
        """Time goes by, and the service is woken whenever it asked to be."""
        end = self.now + seconds
        while self._wait_until(end):
            pass

    def _wait_until(self, end: float) -> bool:
        """On to the next moment at which the service wakes by itself. False: `end` has come."""
        due = self.engine.ledger.next_deadline()
        idle = self.now + IDLE if self._plans() else float("inf")
        if min(due, idle) > end:
            self.api.now = end
            return False
        self.api.now = max(self.now, min(due, idle))
        if due <= self.now:
            self.tell([ev.Tick()])
            assert self.engine.ledger.next_deadline() > due, "a deadline that does not pass"
            self.checked()
        else:
            self.plan()
        return True

    def _plans(self) -> bool:
        """Somebody waits, so a planning pass may be of use though nothing happened."""
        return len(self.engine.ledger.pending) > 0 and not self.thinking

    def step(self) -> bool:
        """One round in which everything that can happen happens, without faults. Did anything?"""
        moved = self.arrive()
        self.look()
        moved |= self.watch()
        if self.thinking:
            self.conclude()
            moved = True
        while self.carry_out():
            moved = True
        moved |= self.report()
        moved |= self.watch()
        for pod in self.scheduler.queue():
            if pod.key in self.api.pods and pod.uid not in self.scheduler.assumed:
                self.scheduler.cycle(self.api.pods[pod.key])
                moved = True
        while self.scheduler.binding:
            self.scheduler.bind_next()
            moved = True
        moved |= self.api.run_pods()
        moved |= self.api.run_controllers()
        return moved

    def quiet(self) -> None:
        """Go on until nothing happens any more unless time goes by."""
        for _ in range(300):
            if not self.step():
                return
        raise AssertionError("the world does not come to rest")

    def settle(self, seconds: float = CALM) -> None:
        """All faults are over: go on for so long."""
        end = self.now + seconds
        self.quiet()
        while self.now < end:
            due = max(self.now, min(self.scheduler.next_time(), self.api.next_time(), end))
            while self._wait_until(due) and not self.lines:
                pass
            self.quiet()

    # ── making things happen ────────────────────────────────────────────────────────────────────────────

    def submit(self, pods: Sequence[Pod]) -> list[Pod]:
        return [self.api.create(pod) for pod in pods]

    def control(self, controller: Controller) -> None:
        """A controller that makes its pods at once."""
        self.api.control(controller)
        self.api.run_controllers()

    def steal(self, node: str, **needs) -> Pod:
        """Another scheduler binds a pod of its own, knowing nothing of our holds."""
        number = sum(1 for pod in self.api.pods.values() if pod.scheduler == "other")
        name = f"stranger-{number}-{len(self.api.feed)}"
        return self.api.create(a_pod(name, scheduler="other", node=node, gated=False, **needs))


def _latest(news: Sequence[ev.Event]) -> list[ev.Event]:
    """What a list after a broken watch tells of these changes: the last state of each object only."""
    last: dict[object, ev.Event] = {}
    for event in news:
        match event:
            case ev.PodSeen(pod):
                key: object = pod.uid
            case ev.PodGone(uid):
                key = uid
            case ev.NodeSeen(node):
                key = node.name
            case ev.NodeGone(name):
                key = name
            case _:
                key = event
        last.pop(key, None)
        last[key] = event
    return list(last.values())
