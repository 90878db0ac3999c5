"""Which pods a disruption budget covers, by the words of policy/v1, and what it lets go."""

from dataclasses import replace

import msgspec
import pytest

from scheduler.ledger import disruption_budgets as ledger_budgets
from scheduler.ledger.disruption_budgets import Budgets
from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import labels_text, read_labels
from scheduler.model.workload import Budget, Phase
from scheduler.objects import api
from scheduler.objects.pod_disruption_budgets import budget
from tests.engine.support.cast import a_pod

WEB = {"app": "web", "tier": "front"}


def a_budget(allowed: int | None = 0, namespace: str = "default", **spec: object):
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    document = {"metadata": {"name": "own", "namespace": namespace}, "spec": spec, "status": status}
    return budget(msgspec.convert(document, api.PodDisruptionBudget))


def a_web_pod(phase: Phase):
    return replace(a_pod("web", node="n1", phase=phase), labels=labels_text(WEB))


def says(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        ({}, True),
        (None, False),
        (says("tier", "In", "front", "back"), True),
        (says("tier", "NotIn", "front"), False),
        (says("zone", "NotIn", "a"), True),
        (says("app", "Exists"), True),
        (says("zone", "Exists"), False),
        (says("zone", "DoesNotExist"), True),
        (says("app", "Resembles", "web"), False),
        ({"matchLabels": {"app": "web"}, **says("tier", "In", "back")}, False),
    ],
)
def test_a_selector_covers_what_it_covers_for_the_api_server(selector, covers):
    """Labels and expressions hold together; empty is every pod, none is no pod, and what cannot be read is none."""
    assert a_budget(selector=selector).covers(WEB) is covers


@pytest.mark.parametrize(
    ("allowed", "namespace", "phase", "kept"),
    [
        (0, "default", Phase.RUNNING, True),
        (None, "default", Phase.RUNNING, True),
        (1, "default", Phase.RUNNING, False),
        (0, "other", Phase.RUNNING, False),
        (0, "default", Phase.PENDING, False),
    ],
    ids=["allows none", "not counted yet", "allows one", "of another namespace", "the pod does not run yet"],
)
def test_who_is_kept(allowed, namespace, phase, kept):
    """A budget keeps the running pods of its own namespace, as long as its status does not allow one more."""
    budgets = Budgets()
    budgets.seen(a_budget(allowed, namespace, selector={}))

    assert bool(budgets.limits([a_web_pod(phase)], [])) is kept


def test_labels_are_read_as_they_were_written():
    """Also those of no value, and none at all."""
    for labels in ({}, {"a": ""}, WEB):
        assert read_labels(labels_text(labels)) == labels


# ── what it costs ─────────────────────────────────────────────────────────────────────────────────────────────

MANY = 100


def named(app: str, allowed: int = 0, name: str = "own") -> Budget:
    return Budget("default", name, (Requirement("app", Operator.IN, (app,)),), allowed)


def running(app: str, name: str = "web", **labels: str):
    return replace(a_web_pod(Phase.RUNNING), uid=name, labels=labels_text({"app": app, **labels}))


@pytest.fixture
def work(monkeypatch) -> list[str]:
    """Selectors held against labels, and labels read."""
    done: list[str] = []
    covers, read = Budget.covers, read_labels
    monkeypatch.setattr(Budget, "covers", lambda own, labels: done.append("selector") or covers(own, labels))
    monkeypatch.setattr(ledger_budgets, "read_labels", lambda text: done.append("labels") or read(text))
    return done


def test_a_pod_is_held_against_budgets_that_name_its_labels_once(work):
    """Many pods and many budgets cost a look for each pod, and none as long as no budget is another."""
    budgets = Budgets()
    for number in range(MANY):
        budgets.seen(named(f"a{number}", 0, f"b{number}"))
    pods = [running(f"a{number}", f"p{number}", z=str(number)) for number in range(MANY)]

    assert len(budgets.limits(pods, [])) == MANY
    assert (work.count("selector"), work.count("labels")) == (MANY, MANY)
    work.clear()
    budgets.seen(named("a0", 1, "b0"))  # it allows more and covers the same
    assert len(budgets.limits(pods, [])) == MANY - 1
    assert work == []


def test_what_is_remembered_of_labels_is_bounded(monkeypatch):
    """Beyond the bound it is looked up again, with the same answer."""
    monkeypatch.setattr(ledger_budgets, "REMEMBERED", 3)
    budgets = Budgets()
    budgets.seen(named("a"))
    pods = [running("a", f"p{number}", z=str(number)) for number in range(MANY)]

    for _ in range(2):
        (limit,) = budgets.limits(pods, [])
        assert limit.uses == {pod.uid: 1.0 for pod in pods}
    assert len(budgets._covers["default"]._known) <= 3


def test_a_budget_that_is_another_covers_other_pods():
    """What is known of labels is forgotten when a selector changes, and when a budget comes or goes."""
    budgets, pods = Budgets(), [running("a")]

    def keeps() -> bool:
        return bool(budgets.limits(pods, []))

    budgets.seen(named("b"))
    assert not keeps()
    budgets.seen(named("a"))
    assert keeps()
    budgets.seen(named("b"))
    assert not keeps()
    budgets.seen(named("a", name="second"))
    assert keeps()
    budgets.gone("default", "second")
    assert not keeps()


def test_pods_that_two_budgets_cover_are_under_one_limit():
    """None of them may leave, however many they are and whatever the budgets allow."""
    budgets = Budgets()
    budgets.seen(replace(named("a", MANY), name="all", selector=()))
    budgets.seen(named("a", MANY))
    pods = [running("a", f"p{number}") for number in range(MANY)]
    (limit,) = budgets.limits(pods, [])

    assert (limit.most, len(limit.uses)) == (0.0, MANY)
