"""Which pods a disruption budget covers, by the words of policy/v1, and what it lets go."""

from dataclasses import replace

import msgspec
import pytest

from scheduler.ledger.budgets import Budgets
from scheduler.model.workload import Phase, labels_text, read_labels
from scheduler.objects import api
from scheduler.objects.budgets import budget
from tests.engine.cast import a_pod

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
