"""The loop around the engine: facts at once, plans one by one, and who may act."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.engine import Engine, cycle, planning, preemption_candidates
from scheduler.engine.preemption_candidates import PreemptionCandidates
from scheduler.ledger import ledger
from scheduler.ledger.counts import Fault
from scheduler.ledger.fault_isolation import FAILED
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.decision import Reason
from scheduler.model.demand import Demand
from scheduler.model.effects import Announce, Effect, Ungate, WritePlan
from scheduler.model.policy import Policy
from scheduler.model.verbs import Allowed, Failed, FilterCall, PreemptCall, Victims
from scheduler.model.workload import GangKey, Membership, Phase, Pod, PodKey, Strategy, Uid
from scheduler.service import service as room
from scheduler.service.service import Service
from tests.engine.support.cast import a_gang_of_pods
from tests.ledger.support.desk import overdrawn
from tests.support.builders import a_node

GANG = GangKey("team", "g")


class Written:
    """Takes effects and answers each as done, as the API server would."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.service: Service | None = None

    def submit(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            asyncio.get_running_loop().call_soon(self._done, effect)

    def _done(self, effect: Effect) -> None:
        assert self.service is not None
        self.service.observe([ev.EffectDone(effect)])


class World:
    """A service on a clock and a lease that the test sets."""

    def __init__(self) -> None:
        self.acting = True
        self.silence = 0.0
        self.passed_on = 0
        self.written = Written()
        self.engine = Engine(Policy())
        self.service = Service(
            self.engine,
            acting=lambda _now: self.acting,
            blind=lambda _now: self.silence,
            blind_after=10.0,
            passed_on=lambda: self.passed_on,
        )
        self.service.actions = self.written  # type: ignore[assignment]
        self.written.service = self.service

    def sees(self, *events: ev.Event) -> None:
        self.service.observe(events)

    async def until(self, kind: type[Effect], count: int) -> list[Effect]:
        async with asyncio.timeout(20):
            while len(found := [e for e in self.written.effects if isinstance(e, kind)]) < count:
                await asyncio.sleep(0.005)
        return found


def nodes(count: int, gpus: int = 8) -> Sequence[ev.Event]:
    return [ev.NodeSeen(Node(f"n{i:04}", (("nvidia.com/gpu", gpus), ("pods", 110)))) for i in range(count)]


def a_member(number: int, of: int, gpus: int = 1) -> ev.PodSeen:
    return ev.PodSeen(
        Pod(
            uid=Uid(f"u{number}"),
            key=PodKey("team", f"g-{number}"),
            demand=Demand((("nvidia.com/gpu", gpus), ("pods", 1))),
            scheduler="gangwright",
            gated=True,
            membership=Membership(GANG, "gangwright", quorum={"": of}),
        )
    )


def a_call(uid: str = "u0", scheduler: str = "gangwright") -> FilterCall:
    return FilterCall(Uid(uid), PodKey("team", "g-0"), scheduler, native_group=False, candidates=("n0000",))


@pytest.fixture
async def world():
    made = World()
    task = asyncio.create_task(made.service.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_takeover_reviews_all_gangs_in_many_turns_and_then_plans(monkeypatch) -> None:
    """The event loop turns between two parts, and the first gang is not planned before the last one was reviewed."""
    monkeypatch.setattr(room, "REVIEWED", 4)
    world = World()
    reviewed, asked, turns = [], [], []
    look, ask = world.engine.ledger._look_after, world.engine.ask

    def looks(record, now):
        reviewed.append(len(turns))
        look(record, now)

    def asks(now):
        asked.append(len(set(reviewed)))
        return ask(now)

    monkeypatch.setattr(world.engine.ledger, "_look_after", looks)
    monkeypatch.setattr(world.engine, "ask", asks)
    pods = [replace(a_member(i, of=1).pod, membership=None) for i in range(20)]
    world.sees(*nodes(1, gpus=2), *map(ev.PodSeen, pods))
    world.service.synced()
    task = asyncio.create_task(world.service.run())
    for _ in range(80):
        turns.append(None)
        await asyncio.sleep(0)
    await world.until(Ungate, 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(set(reviewed[:20])) >= 5
    assert min(asked) >= 5


async def test_a_call_during_a_takeover_is_answered_as_before_it(monkeypatch) -> None:
    """No call is answered by gangs that are adopted or reviewed in part, and none makes the rest of it one step."""
    monkeypatch.setattr(room, "REVIEWED", 1)
    monkeypatch.setattr(ledger, "FEW", 0)
    world, answers, looks = World(), [], []
    pods = [replace(a_member(i, of=1).pod, membership=None, gated=False) for i in range(20)]
    world.sees(*nodes(1, gpus=2), *map(ev.PodSeen, pods))
    world.service.synced()
    task = asyncio.create_task(world.service.run())
    for _ in range(1000):
        looks.append(world.engine.ledger.looks)
        answers.append(world.service.filter(a_call()))
        if not isinstance(answers[-1], Failed):
            break
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert set(answers[:-1]) == {Failed(Reason.CACHE_NOT_SYNCED)}
    assert isinstance(answers[-1], Allowed)
    assert len(answers) > 40
    assert max(after - before for before, after in pairwise(looks)) <= 2


async def test_a_takeover_pauses_while_this_replica_may_not_act(monkeypatch) -> None:
    """No gang is adopted by a stale cache. When it is current again, the rest is adopted and gangs are planned."""
    monkeypatch.setattr(room, "REVIEWED", 1)
    world = World()
    pods = [replace(a_member(i, of=1).pod, membership=None) for i in range(20)]
    world.sees(*nodes(1, gpus=2), *map(ev.PodSeen, pods))
    world.service.synced()
    task = asyncio.create_task(world.service.run())
    while not world.engine.ledger.catch_ups:
        await asyncio.sleep(0)
    world.silence = 100.0
    turns, turned = 0, world.service.last_turn
    for _ in range(100):
        await asyncio.sleep(0.001)
        turns, turned = turns + (world.service.last_turn != turned), world.service.last_turn
    assert world.engine.ledger.catch_ups
    assert turns <= 3
    world.silence = 0.0
    await world.until(Ungate, 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_gang_is_planned_when_it_is_whole(world: World):
    """The last member's arrival is all it takes: the plan is written, then every pod is let go."""
    world.sees(*nodes(2), *(a_member(i, of=4) for i in range(4)))
    world.service.synced()

    ungated = await world.until(Ungate, 4)

    assert isinstance(world.written.effects[0], WritePlan)
    assert {effect.uid for effect in ungated} == {f"u{i}" for i in range(4)}


async def test_nothing_is_written_before_every_list_was_read(world: World):
    """A half-read cluster looks emptier than it is, so nobody is seated in it."""
    world.sees(*nodes(2), *(a_member(i, of=4) for i in range(4)))
    await asyncio.sleep(0.1)

    assert world.written.effects == []


async def test_a_replica_that_does_not_lead_writes_nothing(world: World):
    """Facts are taken in, so that taking over is quick; effects are not made."""
    world.acting = False
    world.sees(*nodes(2), *(a_member(i, of=4) for i in range(4)))
    world.service.synced()
    await asyncio.sleep(0.1)
    assert world.written.effects == []

    world.acting = True
    world.sees(ev.Tick())

    assert len(await world.until(Ungate, 4)) == 4


@pytest.mark.parametrize("acting", [False, True])
async def test_a_lease_that_another_held_ends_the_loop(acting: bool):
    """What led and was replaced starts afresh rather than go on from what it believed, even when it leads again."""
    world = World()
    world.service.synced()
    task = asyncio.create_task(world.service.run())
    await asyncio.sleep(0.05)
    world.acting, world.passed_on = acting, 1
    assert not world.service.leads()
    world.sees(ev.Tick())

    async with asyncio.timeout(5):
        await task


async def test_a_large_question_is_answered_beside_the_loop(world: World, monkeypatch: pytest.MonkeyPatch):
    """What takes long is worked out on a thread, and its seats are held all the same."""
    monkeypatch.setattr(cycle, "INLINE_LIMIT", 1)
    world.sees(*nodes(4), *(a_member(i, of=4) for i in range(4)))
    world.service.synced()

    assert len(await world.until(Ungate, 4)) == 4


async def test_an_answer_that_comes_too_late_is_dropped(world: World, monkeypatch: pytest.MonkeyPatch):
    """While the thread worked, somebody else took the room: the seats are chosen anew, from the room that is left."""
    taken = asyncio.Event()
    first = [True]
    decide = room.attempt
    loop = asyncio.get_running_loop()

    def slow(question, policy):
        if first.pop() if first else False:
            thief = Pod(
                uid=Uid("thief"),
                key=PodKey("other", "thief"),
                demand=Demand((("nvidia.com/gpu", 8), ("pods", 1))),
                scheduler="default-scheduler",
                node=decide(question, policy).seats["u0"],
            )
            asyncio.run_coroutine_threadsafe(_see(world, thief, taken), loop).result(5)
        return decide(question, policy)

    monkeypatch.setattr(cycle, "INLINE_LIMIT", 1)
    monkeypatch.setattr(room, "attempt", slow)
    world.sees(*nodes(2), *(a_member(i, of=4, gpus=2) for i in range(4)))
    world.service.synced()

    ungated = await world.until(Ungate, 4)

    assert taken.is_set()
    assert {effect.node for effect in ungated} == {"n0001"}
    assert overdrawn(world.engine.ledger.nodes) == []


@pytest.mark.parametrize("beside", [False, True])
async def test_a_gang_at_which_the_planner_fails_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, faults: list[Fault], beside: bool
):
    """Its owner is told to report it; the gangs behind it are planned as ever, and the loop turns on."""
    decide = planning.decide

    def fails(asked, *rest):
        if asked.gang.key == GANG:
            raise ZeroDivisionError
        return decide(asked, *rest)

    monkeypatch.setattr(cycle, "INLINE_LIMIT", 0 if beside else cycle.INLINE_LIMIT)
    monkeypatch.setattr(planning, "decide", fails)
    other = GangKey("team", "other")
    first, second = a_member(0, of=1).pod, a_member(1, of=1).pod
    world.sees(*nodes(2), ev.PodSeen(first))
    world.sees(ev.PodSeen(replace(second, membership=Membership(other, "gangwright", quorum={"": 1}))))
    world.service.synced()

    (ungated,) = await world.until(Ungate, 1)
    told = [effect for effect in await world.until(Announce, 1) if effect.gang == GANG]

    assert ungated.gang == other
    assert told[0].reason is Reason.INVALID_SPEC
    assert FAILED in told[0].message
    assert world.engine.away is None
    assert [fault.gang for fault in faults] == [GANG]
    faults.clear()


async def _see(world: World, pod: Pod, done: asyncio.Event) -> None:
    world.sees(ev.PodSeen(pod))
    done.set()


async def test_a_pod_that_is_about_to_be_seen_is_waited_for(world: World):
    """kube-scheduler's watch may be a little ahead of ours."""
    waiting = asyncio.create_task(world.service.seen(Uid("u0"), 5))
    await asyncio.sleep(0)
    world.sees(a_member(0, of=1))

    assert await waiting is True
    assert await world.service.seen(Uid("nobody"), 0.01) is False


async def test_a_stale_picture_answers_nothing(world: World):
    """When the API server has been silent too long, our pods get an error, and everybody else's an echo."""
    world.service.synced()
    world.sees(*nodes(1), a_member(0, of=1))
    world.silence = 11.0

    assert world.service.filter(a_call()) == Failed(Reason.CACHE_NOT_SYNCED)
    assert world.service.filter(a_call(scheduler="other")) == Allowed(("n0000",), Reason.OTHER_SCHEDULER)


async def test_nothing_is_planned_by_a_stale_picture(world: World):
    """A gang that comes while we are blind waits, and is planned when we see again."""
    world.sees(*nodes(2))
    world.service.synced()
    world.sees(ev.Tick())
    await asyncio.sleep(0.05)
    world.silence = 11.0
    world.sees(*(a_member(i, of=4) for i in range(4)))
    await asyncio.sleep(0.1)
    assert world.written.effects == []
    assert world.engine.ledger.blind

    world.silence = 0.0

    assert len(await world.until(Ungate, 4)) == 4


async def test_a_moment_without_sight_forgets_nothing(world: World):
    """Sight that is lost and found between two turns of the loop leaves no gang behind that nobody looked at."""
    world.sees(*nodes(2))
    world.service.synced()
    await asyncio.sleep(0.05)
    looks = iter([11.0])
    world.service._blind = lambda _now: next(looks, 0.0)
    world.sees(*(a_member(i, of=4) for i in range(4)))

    assert len(await world.until(Ungate, 4)) == 4


async def test_a_moment_without_sight_while_a_thread_thinks_ends_the_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """A verb notices it and nobody else: the answer counts no more, and the gang is planned after a look at all."""
    decide, asked = room.attempt, []
    loop = asyncio.get_running_loop()

    async def blink() -> None:
        world.silence = 11.0
        world.service.filter(a_call())
        world.silence = 0.0

    def slow(question, policy):
        asked.append(question)
        if len(asked) == 1:
            asyncio.run_coroutine_threadsafe(blink(), loop).result(5)
        return decide(question, policy)

    monkeypatch.setattr(cycle, "INLINE_LIMIT", 1)
    monkeypatch.setattr(room, "attempt", slow)
    world.sees(*nodes(2), *(a_member(i, of=4) for i in range(4)))
    world.service.synced()

    assert len(await world.until(Ungate, 4)) == 4
    assert len(asked) == 2


async def test_a_lease_that_is_taken_again_is_acted_on_again(world: World):
    """While the Lease is free nothing is done. Its own kube-scheduler takes it back, and the gang of meanwhile is
    planned.
    """
    world.sees(*nodes(2))
    world.service.synced()
    world.sees(ev.Tick())
    await asyncio.sleep(0.05)
    world.acting = False
    world.sees(*(a_member(i, of=4) for i in range(4)))
    await asyncio.sleep(0.1)
    assert world.written.effects == []
    assert world.service.filter(a_call()) == Failed(Reason.CACHE_NOT_SYNCED)
    assert not world.service.engine.ledger.ready, "gauges and the status API say so"

    world.acting = True

    assert len(await world.until(Ungate, 4)) == 4


async def test_what_another_held_before_we_acted_ends_nothing(world: World):
    """A standby looks on while the Lease goes from one to another, and acts when its turn comes."""
    world.acting = False
    world.sees(*nodes(2), *(a_member(i, of=4) for i in range(4)))
    world.service.synced()
    await asyncio.sleep(0.05)

    world.acting, world.passed_on = True, 7

    assert len(await world.until(Ungate, 4)) == 4


@pytest.mark.parametrize("replaced", [False, True])
async def test_what_slept_submits_nothing(monkeypatch: pytest.MonkeyPatch, replaced: bool):
    """The Lease ends while a plan is worked out: the plan is dropped. Where no other replica acted meanwhile the gang
    is planned once more; else the loop ends, even if the Lease is ours again.
    """
    world = World()
    decide = room.attempt

    def sleeps(question, policy):
        world.acting = False
        return decide(question, policy)

    monkeypatch.setattr(cycle, "INLINE_LIMIT", 0)
    monkeypatch.setattr(room, "attempt", sleeps)
    world.sees(*nodes(2), *(a_member(i, of=4) for i in range(4)))
    world.service.synced()
    task = asyncio.create_task(world.service.run())
    async with asyncio.timeout(5):
        while world.acting or not world.engine.ledger.blind:
            await asyncio.sleep(0.005)
    assert world.written.effects == []

    monkeypatch.undo()
    world.acting, world.passed_on = True, int(replaced)
    if replaced:
        async with asyncio.timeout(5):
            await task
        assert world.written.effects == []
    else:
        assert len(await world.until(Ungate, 4)) == 4
        task.cancel()
        await asyncio.wait([task])


async def test_what_is_seen_after_the_lease_ended_is_not_acted_upon():
    """Events that wait for their look when the lease ends bring no effects, and verbs no answer."""
    world = World()
    world.sees(*nodes(2), a_member(0, of=2))
    world.service.synced()
    world.engine.ledger.handle([ev.TookOver()], world.service.clock())
    world.acting = False
    looks = world.engine.ledger.looks
    world.sees(a_member(1, of=2))
    await asyncio.sleep(0.05)

    assert world.engine.ledger.looks == looks
    assert world.service.filter(a_call()) == Failed(Reason.CACHE_NOT_SYNCED)


async def test_preempt_keeps_members_of_gangs_from_preempting(world: World):
    """A member of a gang gets no candidate from kube-scheduler's own preemption."""
    world.sees(*nodes(1), a_member(0, of=2))
    call = PreemptCall(
        Uid("u0"), PodKey("team", "g-0"), "gangwright", native_group=False, candidates={"n0000": Victims(())}
    )

    assert world.service.preempt(call) == {}


def running(number: int, node: str = "n0000", gpus: int = 1):
    pod = a_member(number, of=1, gpus=gpus).pod
    return replace(pod, membership=None, gated=False, node=node, phase=Phase.RUNNING, bound_at=1.0)


def urgent(number: int, gpus: int, priority: int = 100, gang: str = "urgent"):
    pod = a_member(number, of=1, gpus=gpus).pod
    return replace(
        pod, priority=priority, membership=Membership(GangKey("team", gang), "gangwright", quorum={"": 1})
    )


async def until(holds) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(world: World):
    """The planning loop runs, and no fault ends it."""
    task = asyncio.create_task(world.service.run())
    try:
        await until(lambda: world.engine.ledger.ready)
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_fault_while_running_pods_are_read_does_not_end_the_loop(monkeypatch, faults):
    """The gang that asks leaves the queue, as with a fault in its question, and other gangs are planned."""
    world = World()
    real = PreemptionCandidates._grouped

    def poisoned(self, record):
        if any(m.pod.uid == "u1" for m in record.members.values()):
            raise ZeroDivisionError
        return real(self, record)

    monkeypatch.setattr(PreemptionCandidates, "_grouped", poisoned)
    world.sees(*nodes(1, gpus=2), *map(ev.PodSeen, [running(1), running(2)]))
    world.service.synced()
    async with serving(world):
        world.sees(ev.PodSeen(urgent(3, gpus=2)))
        await until(lambda: faults)
        world.sees(ev.NodeSeen(a_node("n0001", gpu=1)), ev.PodSeen(urgent(5, gpus=1, gang="small")))
        await until(lambda: world.engine.ledger.registry.member(Uid("u5")).hold)
    faults.clear()


@pytest.mark.parametrize("what", ["settings", "current again"])
async def test_an_answer_that_comes_back_during_a_catch_up_does_not_make_the_rest_one_step(monkeypatch, what):
    """A thread answers a large question while the settings change: gangs are still reviewed a few at a time."""
    monkeypatch.setattr(room, "REVIEWED", 40)
    monkeypatch.setattr(cycle, "INLINE_LIMIT", 0)
    release = threading.Event()
    real = room.attempt

    def slow(question, policy):
        release.wait(20)
        return real(question, policy)

    monkeypatch.setattr(room, "attempt", slow)
    world = World()
    turns, steps = [0], {}
    look = world.engine.ledger._look_after

    def looks(record, now):
        steps[turns[0]] = steps.get(turns[0], 0) + 1
        look(record, now)

    monkeypatch.setattr(world.engine.ledger, "_look_after", looks)
    world.sees(*nodes(1, gpus=400), *map(ev.PodSeen, map(running, range(300))))
    world.service.synced()
    async with serving(world):
        world.sees(ev.PodSeen(urgent(1000, gpus=200, priority=0)))
        await until(lambda: world.engine.away is not None)
        steps.clear()
        if what == "settings":
            world.sees(ev.PolicyChanged(replace(Policy(), default_runtime=1.0)))
        else:
            world.sees(ev.LostSight(), ev.SawAgain())
        release.set()
        async with asyncio.timeout(20):
            while sum(steps.values()) < 300:
                turns[0] += 1
                await asyncio.sleep(0)
    assert max(steps.values()) < 50


async def test_a_catch_up_goes_on_after_the_lease_was_expired_for_one_step(monkeypatch):
    """The first step of it found the Lease expired, and it was renewed before the loop looked: no event has to come."""
    world = World()
    world.sees(*nodes(1, gpus=4), *map(ev.PodSeen, map(running, range(3))))
    world.service.synced()
    async with serving(world):
        real = world.service.may_act

        def once():
            monkeypatch.setattr(world.service, "may_act", real)
            return False

        world.sees(ev.PolicyChanged(replace(Policy(), default_runtime=1.0)))
        monkeypatch.setattr(world.service, "may_act", once)
        await until(lambda: world.service.may_act == real)
        await until(lambda: world.engine.ledger.ready)


async def test_a_node_that_comes_while_running_pods_are_read_does_not_end_the_loop(monkeypatch, faults):
    """A gang with a required spread over racks may preempt, and a node of another rack comes between two portions."""
    monkeypatch.setattr(preemption_candidates, "PORTION", 0)
    world = World()
    racks = [a_node(f"n{number}", gpu=2, rack=f"r{number}") for number in range(3)]
    pods = [running(number, node=f"n{number % 3}") for number in range(6)]
    world.sees(*map(ev.NodeSeen, racks), *map(ev.PodSeen, pods))
    world.service.synced()
    gather, come = PreemptionCandidates.gather, [ev.NodeSeen(a_node("n9", gpu=1, rack="r9"))]

    def gathers(self, *args):
        for _ in gather(self, *args):
            world.sees(*come)
            come.clear()
            yield

    monkeypatch.setattr(PreemptionCandidates, "gather", gathers)
    wish = {"strategy": Strategy.SPREAD, "level": "rack", "required": True}
    async with serving(world):
        for name, priority in (("other", -1), ("urgent", 100)):
            members = a_gang_of_pods(name, 4, gpu=1, cpu=0, wish=wish, priority=priority)
            world.sees(*(ev.PodSeen(replace(pod, scheduler="gangwright", gated=True)) for pod in members))
            await asyncio.sleep(0.1)
        await until(lambda: not come)
        for _ in range(2):
            turned = world.service.last_turn
            world.sees(ev.Tick())
            await until(lambda turned=turned: world.service.last_turn > turned)
    faults.clear()


async def test_other_settings_soon_after_a_review_do_not_stop_calls(monkeypatch):
    """The next review is due much later, but nothing waits for the catch-up until then."""
    monkeypatch.setattr(room, "PAUSE", 1_000.0)
    world = World()
    world.sees(*nodes(1, gpus=4), *map(ev.PodSeen, map(running, range(3))))
    world.service.synced()
    async with serving(world):
        world.sees(ev.PolicyChanged(replace(Policy(), default_runtime=1.0)))
        assert not world.engine.ledger.ready
        await until(lambda: world.engine.ledger.ready)
