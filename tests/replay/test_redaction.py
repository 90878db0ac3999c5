"""Redaction: no name is left, and everything is decided as before."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.cluster import survey
from scheduler.model.decision import Place
from scheduler.model.workload import read_labels
from scheduler.replay import encode, judge
from scheduler.replay.redaction import redact, renaming
from tests.builders import a_node
from tests.ledger.desk import QUICK
from tests.replay.scene import a_document, a_full_document, a_pod, some_gang

NAMES = (
    "secret",
    "team",
    "waits",
    "huge",
    "lesson",
    "owner-1",
    "a0-r0",
    "ssd",
    "blue",
    "stranger",
    "grouped",
    "worker",
)


def decided(document, rename=str):
    """Every answer, with the names in it renamed."""
    return [
        (
            step.place,
            rename(step.gang.key.namespace),
            step.answer,
            {rename(uid): rename(node) for uid, node in step.decision.seats.items()}
            if isinstance(step.decision, Place)
            else getattr(step.decision, "reason", None),
        )
        for step in judge(document).steps
    ]


def test_no_name_is_left():
    """Nothing that somebody chose is in the bytes: no name, no label's value, no text of a complaint."""
    text = encode(redact(a_full_document())).decode()

    assert [name for name in NAMES if name in text] == []


def test_labels_that_nobody_asks_for_are_gone():
    """Of a node's labels those remain that levels, selectors or affinities name."""
    before, after = (own.nodes[0].labels for own in (a_full_document(), redact(a_full_document())))

    assert set(before) - set(after) == {"team"}


def test_a_budget_covers_the_same_pods():
    """Of pods' labels those that a budget names are in a document, and lie under it without their names, too."""
    for document in (a_full_document(), redact(a_full_document())):
        (budget,) = document.budgets
        labels = {pod.labels for pod in document.pods}
        assert len(labels) == 2
        assert sum(budget.covers(read_labels(pod.labels)) for pod in document.pods) == 2
        assert not any("whose" in own for own in labels)


def test_numbers_that_are_compared_stay():
    """A label that somebody compares with Gt keeps its value: it is a number already, and its size decides."""
    assert redact(a_full_document()).nodes[0].labels["cores"] == "16"


def test_the_same_is_decided():
    """Every gang gets the answer that it got before, and the seats on the nodes that its own became."""
    full = a_full_document()

    assert decided(redact(full)) == decided(full, renaming(full))


def test_one_name_is_one_number():
    """A node is called alike as a node, as a label's value, and as where a pod runs."""
    found = redact(a_document(a_pod("one", node="a0-r0-n0", gated=False)))

    assert found.pods[0].node == found.nodes[0].name == found.nodes[0].labels["kubernetes.io/hostname"]


def test_twice_is_once():
    """A redacted document, redacted again, is decided alike again."""
    once = redact(a_full_document())

    assert decided(redact(once)) == decided(once, renaming(once))


WORD = st.from_regex(r"[ab1]([-ab1._]{0,4}[ab1])?", fullmatch=True)


@pytest.mark.slow
@QUICK
@given(st.sets(WORD, min_size=2, max_size=12))
def test_names_keep_their_order(names):
    """Whatever the names are, they sort as before, and so do paths made of them."""
    pods = [a_pod(name, created=0.0) for name in names]
    rename = renaming(a_document(*pods))

    for one, other in pairwise(sorted(names)):
        assert rename(one) < rename(other)
    paths = sorted(f"{one}/{other}" for one in names for other in names)
    assert sorted(map(rename, paths)) == list(map(rename, paths))


@QUICK
@given(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=8, unique=True))
def test_domains_keep_their_numbers(places):
    """Every node stands in the domains of the numbers that it had."""
    nodes = [a_node(f"n{i}", area=area, rack=rack) for i, (area, rack) in enumerate(places)]
    document = msgspec.structs.replace(a_document(), nodes=tuple(nodes))

    before, after = (
        survey(own.policy.levels, [node.labels for node in own.nodes]).coords
        for own in (document, redact(document))
    )

    assert (before == after).all()


@pytest.mark.parametrize("gang", ["uid", "uid1", "vgg", "alexnet", "uid-2"])
def test_gangs_keep_their_place_beside_pods_without_one(gang):
    """The key of a pod alone sorts among names of gangs; a gang's new name lies on the same side of it."""
    document = a_document(*some_gang(gang, 1), a_pod("single"))

    def order(own):
        return [
            record.key.name.startswith("uid:") for record in sorted(_records(own), key=lambda one: one.key)
        ]

    assert order(redact(document)) == order(document)


def _records(document):
    return judge(document).engine.ledger.registry.gangs.values()
