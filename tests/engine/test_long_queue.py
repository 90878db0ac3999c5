"""A long queue: what kube-scheduler's verbs cost beside it, in questions to the planner and in gangs looked at, and
that a pass leaves out nobody of it.
"""

from dataclasses import replace

import pytest

from scheduler.engine import engine as door
from scheduler.engine.cycle import PlanningCycle
from scheduler.engine.equivalence import Candidacy
from scheduler.model import events as ev
from scheduler.model.decision import Reason, Wait
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill
from scheduler.model.verbs import FilterCall, PreemptCall, Refused, Victims
from scheduler.model.workload import Phase
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.engine.support.kube_scheduler import APART
from tests.engine.support.stage import POLICY, a_world, an_engine, planned, runs
from tests.engine.support.world import World

MANY = 1_000
FULL = "n0"


class Work:
    """What was done since it was last asked."""

    def __init__(self) -> None:
        self.questions = self.looks = 0

    def done(self) -> tuple[int, int]:
        questions, looks = self.questions, self.looks
        self.questions = self.looks = 0
        return questions, looks


@pytest.fixture
def work(monkeypatch) -> Work:
    """Counts questions that are answered, and gangs of the queue that are looked at."""
    counted = Work()
    answer, first_open = PlanningCycle.answer, Candidacy.first_open

    def answers(self, question):
        counted.questions += 1
        return answer(self, question)

    def looks(self, records):
        def each():
            for record in records:
                counted.looks += 1
                yield record

        return first_open(self, each())

    monkeypatch.setattr(PlanningCycle, "answer", answers)
    monkeypatch.setattr(Candidacy, "first_open", looks)
    return counted


def a_queue(waiting: int) -> World:
    """A full node, and so many gangs that wait for it, each of which was told so."""
    world = a_world(4)
    world.submit(a_gang_of_pods("runs", 4, gpu=1))
    world.settle(1.0)
    for number in range(waiting):
        world.submit(a_gang_of_pods(f"waits-{number}", 1, gpu=1 + number % 4))
    world.watch()
    world.plan()
    return world


def a_late_one(world: World, name: str = "late"):
    """A pod without our gate, made a second after all others, of which the service was just told."""
    world.advance(1.0)
    (pod,) = world.submit([a_pod(name, gated=False, gpu=1)])
    world.tell(world.api.feed[world.seen :], look=False)
    world.seen = len(world.api.feed)
    return pod


@pytest.mark.parametrize("waiting", [0, MANY])
def test_filter_asks_about_the_pod_alone(work, waiting):
    """Whoever waits and was told so is not asked about again for it, and is looked at once, and once more at the
    end.
    """
    world = a_queue(waiting)
    pod = a_late_one(world)
    work.done()

    answer, _ = world.engine.filter(FilterCall(pod.uid, pod.key, pod.scheduler, False, (FULL,)), world.now)

    questions, looks = work.done()
    assert isinstance(answer, Refused)
    assert answer.reason is Reason.INSUFFICIENT_RESOURCES
    assert 1 <= questions <= 2  # about the pod, and how room could be made for it
    assert looks <= 2 * (waiting + 1) + 16


@pytest.mark.parametrize("waiting", [0, MANY])
def test_filter_looks_at_nobody_of_whom_nothing_is_new(work, waiting):
    """Asked once more about a pod, or about another one, it looks at that gang and at the head of the queue alone."""
    world = a_queue(waiting)
    for name in ("late", "later", "last"):
        pod = a_late_one(world, name)
        for _ in range(2):
            work.done()
            call = FilterCall(pod.uid, pod.key, pod.scheduler, False, (FULL,))
            answer, _ = world.engine.filter(call, world.now)
            looks = work.done()[1]

            assert isinstance(answer, Refused)
            assert answer.reason is Reason.INSUFFICIENT_RESOURCES
            assert name == "late" or looks <= 16


@pytest.mark.parametrize("waiting", [0, MANY])
def test_filter_asks_no_more_than_so_many_questions_when_room_came_back(work, waiting):
    """All who wait could be asked about: a verb asks a few of them, and leaves the rest to the planning pass."""
    world = a_queue(waiting)
    pod = a_late_one(world)
    world.api.remove(world.bound("runs")[0].key)
    world.tell(world.api.feed[world.seen :], look=False)
    work.done()

    world.engine.filter(FilterCall(pod.uid, pod.key, pod.scheduler, False, (FULL,)), world.now)

    assert work.done()[0] <= door.INLINE_QUESTIONS


def test_a_stranger_that_is_bound_is_news_to_no_gang(work):
    """Pods of other schedulers ask us for nothing. So the priority of a system pod makes no victim of any pod, nor does
    it make a gang ask again, also where a placeholder of priority below zero might give way.
    """
    world = a_queue(MANY)
    world.steal(FULL, cpu=0.1, priority=2_000_001_000)
    world.steal(FULL, cpu=0.1, priority=-10)
    world.watch()
    world.plan()
    work.done()

    world.steal(FULL, cpu=0.1)
    world.watch()
    world.plan()

    assert work.done()[0] == 0


@pytest.mark.parametrize("waiting", [0, MANY])
def test_preempt_looks_at_nobody_who_waits(work, waiting):
    """Whose victims they are is worked out from the pod and the nodes; the queue is not gone through."""
    world = a_queue(waiting)
    pod = a_late_one(world)
    victims = {FULL: Victims((world.bound("runs")[0].uid,))}
    work.done()

    world.engine.preempt(PreemptCall(pod.uid, pod.key, pod.scheduler, False, victims))

    assert work.done() == (0, 0)


def test_nobody_is_passed_over_when_all_come_of_age() -> None:
    """Between two questions of a pass every place in the queue gets another name; who was not looked at yet still
    is.
    """
    sizes = {f"g{number}": 16 - number for number in range(8)} | {"tiny": 1}
    waiting = [pod for name, gpu in sizes.items() for pod in a_gang_of_pods(name, 1, gpu=gpu, created=1000.0)]
    engine = an_engine(
        16, Policy(age_limit=5000.0, backfill=Backfill.FREE), 1050.0, *map(runs, range(16)), *waiting
    )
    for now in range(1050, 6000):
        engine.observe([ev.Tick()], float(now))
        list(planned(engine, float(now)))
    engine.observe([ev.PodSeen(replace(runs(0), phase=Phase.SUCCEEDED))], 5999.9)
    for now in (5999.9, 5999.95):
        question = engine.ask(5999.9)
        assert question is not None
        engine.settle(question, engine.answer(question), now)

    list(planned(engine, 6000.1))
    engine.observe([ev.Tick()], 6000.2)
    list(planned(engine, 6000.2))

    seated = {key.name for key, record in engine.ledger.registry.gangs.items() if record.plan is not None}
    assert seated == {"tiny"}


def one_at_a_time(*gpus: int, policy: Policy = POLICY) -> World:
    """A gang of one that runs, and twelve that go one at a time: the first has seats, and each was told."""
    world = a_world(*gpus, policy=policy)
    world.submit(a_gang_of_pods("runs", 1, gpu=1))
    world.settle(1.0)
    for number in range(12):
        pods = a_gang_of_pods(f"odd-{number:02}", 2, gpu=1)
        world.submit([replace(pod, unmodeled=(APART,)) for pod in pods])
    world.watch()
    world.plan()
    return world


def behind(world: World) -> list[str | None]:
    """By gang, which one it lets pass."""
    verdicts = [world.record(f"odd-{number:02}").verdict.decision for number in range(12)]
    return [own.behind.name if isinstance(own, Wait) and own.behind else None for own in verdicts]


@pytest.mark.parametrize("policy", [POLICY, Policy(backfill=Backfill.NONE)], ids=["reserve", "strict order"])
def test_gangs_that_let_another_pass_cost_no_question_when_room_grows(work: Work, policy: Policy) -> None:
    """Room is not what they wait for; a gang behind them is asked about."""
    world = one_at_a_time(4, 4, policy=policy)
    assert behind(world) == [None, *["odd-00"] * 11]
    world.submit(a_gang_of_pods("plain", 4, gpu=2))
    world.watch()
    world.plan()
    work.done()
    room = world.engine.ledger.nodes.room_version
    world.tell([ev.PodGone(pod.uid, pod.key) for pod in world.pods("runs")])
    world.plan()
    assert work.done()[0] == 1
    assert world.record("plain").verdict.room == world.engine.ledger.nodes.room_version > room


def test_when_the_next_has_its_turn_the_others_are_told_so_without_a_question(work: Work) -> None:
    """Only the one whose turn it is is asked about."""
    world = one_at_a_time(4, 4)
    work.done()
    for pod in world.pods("odd-00"):
        world.api.delete(pod.key)
    world.watch()
    world.plan()
    told = [world.record(f"odd-{number:02}").verdict.decision for number in range(1, 12)]
    assert [own and own.behind.name for own in told] == [None, *["odd-01"] * 10]
    assert work.done()[0] == 1
