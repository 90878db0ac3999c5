"""Disruption budgets and whole gangs: what a budget keeps is not chosen, what it protects all the same stays, and a gang
that it takes apart is whole again soon.
"""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import PlanningCycle
from scheduler.ledger.disruption_budgets import EVERY
from scheduler.model.demand import Operator, Requirement
from scheduler.model.events import FailureKind
from scheduler.model.policy import Policy
from scheduler.model.workload import Budget, Pod
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.freeing import a_job, a_stage, evicted, important
from tests.engine.support.stage import POLICY as PLAIN
from tests.engine.support.stage import seats
from tests.engine.support.world import World
from tests.support.builders import a_node

POLICY = Policy(timeout=60.0)


def full() -> World:
    """A gang of four takes all there is, and its owner makes its pods again."""
    world = World([a_node("n1", gpu=4)], POLICY)
    owner, membership = an_owner("ReplicaSet", "low"), a_membership("low", 4)
    world.control(
        Controller(
            owner, 4, lambda name: a_pod(name, owner=owner, membership=membership, gpu=1, created=world.now)
        )
    )
    world.settle(1.0)
    return world


def test_a_budget_that_takes_a_gang_apart_ends_the_plan() -> None:
    """One member may go and three may not: the plan is given up at once, not when its time is up, and the gang is
    whole.
    """
    world = full()
    world.api.protected |= {pod.uid for pod in world.pods("low")[1:]}
    world.submit(a_gang_of_pods("high", 4, gpu=1, priority=10))
    world.settle(2.0)

    assert len(world.api.evicted) == 1
    assert len(world.bound("low")) == 4
    assert world.engine.ledger.holds() == 0


def test_a_budget_that_keeps_all_is_waited_for() -> None:
    """Nobody has left yet, so nothing is lost by waiting: when the budget allows it, the gang leaves whole."""
    world = full()
    protected = {pod.uid for pod in world.pods("low")}
    world.api.protected |= protected
    world.submit(a_gang_of_pods("high", 4, gpu=1, priority=10))
    world.settle(20.0)
    assert world.api.evicted == []
    assert world.engine.ledger.holds() == 4
    world.api.protected -= protected
    world.settle(10.0)

    assert len(world.api.evicted) == 4
    assert len(world.bound("high")) == 4


# ── read before a pod is chosen ───────────────────────────────────────────────────────────────────────────────


def a_budget(app: str, allowed: int, name: str = "budget") -> Budget:
    return Budget("default", name, (Requirement("app", Operator.IN, (app,)),), allowed)


def labelled(pods: list[Pod], app: str) -> list[Pod]:
    return [replace(pod, labels=f"app={app}") for pod in pods]


def singles(world: World, app: str, count: int, **each) -> None:
    """Single pods of another scheduler, each on a node of its own, under whatever covers the label."""
    theirs = [a_pod(f"{app}-{n}", gpu=1, scheduler="default-scheduler", **each) for n in range(count)]
    for number, pod in enumerate(world.submit(labelled(theirs, app))):
        world.api.bind(pod.uid, pod.key, f"n{number}")
    world.settle(1)


def refusals(world: World) -> int:
    return world.engine.ledger.counters.refusals[FailureKind.BUDGET]


def test_a_gang_that_its_budget_keeps_is_not_chosen() -> None:
    """Three of its four may go, so none is asked: another gang leaves, though more of its work is lost."""
    world = a_stage(4, 4)
    world.submit(labelled(a_gang_of_pods("other", 4, gpu=1), "other"))
    world.settle(100)
    world.submit(labelled(a_gang_of_pods("kept", 4, gpu=1), "kept"))
    world.settle(1)
    world.api.put_budget(a_budget("kept", 3))
    world.api.protected |= {pod.uid for pod in world.pods("kept")}
    important(world, 4)
    world.settle(1)

    assert evicted(world) == [f"other-{n}" for n in range(4)]
    assert (seats(world, "important"), seats(world, "kept"), refusals(world)) == (4, 4, 0)


def test_pods_of_one_budget_count_together() -> None:
    """Each of three may go and not two at a time: a gang of two has the room of one only."""
    world = a_stage(1, 1, 1)
    singles(world, "web", 3)
    world.api.put_budget(a_budget("web", 1))
    pair = important(world, 2)
    world.settle(60)
    assert (evicted(world), seats(world, "important")) == ([], 0)
    for pod in pair:
        world.api.delete(pod.key)
    important(world, 1, name="lone")
    world.settle(1)

    assert len(evicted(world)) == 1
    assert seats(world, "lone") == 1


@pytest.mark.parametrize("gone", [False, True], ids=["it allows more", "it is gone"])
def test_a_gang_leaves_once_its_budget_allows_it(gone: bool) -> None:
    """What changed of a budget is a reason to ask again."""
    world = a_stage(4)
    world.submit(labelled(a_gang_of_pods("low", 4, gpu=1), "low"))
    world.settle(1)
    world.api.put_budget(a_budget("low", 0))
    important(world, 4)
    world.settle(60)
    assert evicted(world) == []
    if gone:
        world.api.delete_budget(a_budget("low", 0))
    else:
        world.api.put_budget(a_budget("low", 4))
    world.settle(1)

    assert seats(world, "important") == 4


def test_a_pod_that_was_chosen_and_not_asked_yet_counts() -> None:
    """A second gang counts on no pod that the first has chosen: one of two may leave by their budget, and one does."""
    world = a_stage(1, 1, policy=replace(PLAIN, evictions_per_namespace=0))
    singles(world, "web", 2)
    world.api.put_budget(a_budget("web", 1))
    for name in ("first", "second"):
        important(world, 1, name=name)
    world.settle(1)

    assert [len(plan.victims) for plan in world.engine.ledger.freeing.values()] == [1]


def test_a_pod_of_two_budgets_stays() -> None:
    """The Eviction API evicts no pod that two budgets cover, whatever they allow."""
    world = a_stage(1)
    singles(world, "web", 1)
    for name in ("one", "two"):
        world.api.put_budget(a_budget("web", 1, name))
    important(world, 1)
    world.settle(60)

    assert (evicted(world), seats(world, "important")) == ([], 0)


def test_no_budget_is_asked_for_a_job_that_is_suspended() -> None:
    """Its pods are deleted by their controller, and none is evicted."""
    world = a_stage(2)
    a_job(world, "train", 2)
    world.settle(1)
    world.api.put_budget(Budget("default", "all", (), 0))
    important(world, 2)
    world.settle(1)

    assert seats(world, "important") == 2
    assert evicted(world) == []


# ── when gangs are asked about again ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def questions(monkeypatch) -> list[str]:
    """Gangs that were asked about, once for each question."""
    found: list[str] = []
    answer = PlanningCycle.answer

    def answers(self, question):
        found.append(question.gang.key.name)
        return answer(self, question)

    monkeypatch.setattr(PlanningCycle, "answer", answers)
    return found


def kept(questions: list[str], **each) -> World:
    """Two pods that a budget keeps where they are, and a gang that waits for their room."""
    world = a_stage(1, 1)
    singles(world, "web", 2, **each)
    world.api.put_budget(a_budget("web", 0))
    important(world, 2)
    world.settle(60)
    assert (seats(world, "important"), "important" in questions) == (0, True)
    questions.clear()
    return world


@pytest.mark.parametrize("gone", [False, True], ids=["it allows more", "it is gone"])
@pytest.mark.parametrize(
    ("namespace", "app", "priority"),
    [("other", "web", 0), ("default", "else", 0), ("default", "web", 100)],
    ids=["of another namespace", "covers no pod", "covers none of lower priority"],
)
def test_a_budget_that_frees_no_pod_is_no_reason_to_ask(questions, gone, namespace, app, priority) -> None:
    """It let no pod go that the gang could take."""
    world = kept(questions, priority=priority)
    budget = replace(a_budget(app, 0, "changes"), namespace=namespace)
    world.api.put_budget(budget)
    world.settle(1)
    if gone:
        world.api.delete_budget(budget)
    else:
        world.api.put_budget(replace(budget, allowed=1))
    world.settle(60)

    assert questions == []


def test_budgets_that_change_all_the_time_are_a_reason_now_and_then(questions) -> None:
    """A hundred changes within ten seconds cost no more questions than three."""
    world = kept(questions)
    for number in range(100):
        world.api.put_budget(a_budget("web", 1 - number % 2))
        world.settle(0.1)
    each = len(questions) // (1 + int(10 / EVERY))

    assert 0 < each <= 4


def test_a_budget_that_allows_more_right_after_another_is_heard(questions) -> None:
    """The second change is a reason to ask a few seconds later, by a deadline of its own."""
    world = kept(questions)
    world.api.put_budget(a_budget("web", 1))
    world.settle(0.5)
    world.api.put_budget(a_budget("web", 2))
    world.settle(0.5)
    assert seats(world, "important") == 0
    world.settle(EVERY)

    assert seats(world, "important") == 2
    assert world.engine.ledger.budgets.next_due() == float("inf")
