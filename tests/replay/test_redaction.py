"""Redaction: no name is left, and everything is decided as before, but for ties that names decide."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.cluster import survey
from scheduler.model.decision import Place
from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import NODE, Neighbors, PodSelector, PodTerm, read_labels, user_of
from scheduler.model.workload import PodKey
from scheduler.replay import encode, judge
from scheduler.replay.redaction import HIDDEN, hashing, redact
from tests.ledger.support.desk import QUICK
from tests.replay.scene import NOW, a_document, a_full_document, a_pod, some_gang
from tests.support.builders import a_node

KEY = b"chance"

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


def in_turn(document):
    """The same document, whose pods came one after the other: no turn is a tie."""
    pods = (replace(pod, created=NOW - 1000 + number) for number, pod in enumerate(document.pods))
    return msgspec.structs.replace(document, pods=tuple(pods))


def decided(document, rename=str):
    """Every answer by gang, with the names in it renamed; of a gang that is seated, which members share a node."""
    return {
        (rename(step.gang.key.namespace), rename(step.gang.key.name)): (
            step.place,
            step.answer,
            together(step.decision.seats, rename)
            if isinstance(step.decision, Place)
            else getattr(step.decision, "reason", None),
        )
        for step in judge(document).steps
    }


def together(seats, rename):
    """The members on each node, whichever node it is."""
    nodes: dict[str, set[str]] = {}
    for uid, node in seats.items():
        nodes.setdefault(node, set()).add(rename(uid))
    return set(map(frozenset, nodes.values()))


def test_no_name_is_left():
    """Nothing that somebody chose is in the bytes: no name, no label's value, no text of a complaint."""
    text = encode(redact(a_full_document(), KEY)).decode()

    assert [name for name in NAMES if name in text] == []


def test_labels_that_nobody_asks_for_are_gone():
    """Of a node's labels those remain that levels, selectors or affinities name."""
    before, after = (own.nodes[0].labels for own in (a_full_document(), redact(a_full_document(), KEY)))

    assert set(before) - set(after) == {"team"}


def test_a_budget_covers_the_same_pods():
    """Of pods' labels those that a budget names are in a document, and lie under it without their names, too."""
    for document in (a_full_document(), redact(a_full_document(), KEY)):
        (budget,) = document.budgets
        labels = {pod.labels for pod in document.pods}
        assert len(labels) == 2
        assert sum(budget.covers(read_labels(pod.labels)) for pod in document.pods) == 2
        assert not any("whose" in own for own in labels)


def test_numbers_that_are_compared_stay():
    """A label that somebody compares with Gt keeps its value: it is a number already, and its size decides."""
    assert redact(a_full_document(), KEY).nodes[0].labels["cores"] == "16"


def test_the_same_is_decided():
    """Every gang gets the place and the answer that it got before, and shares nodes as before."""
    full = in_turn(a_full_document())

    assert len(decided(full)) == 5
    assert decided(redact(full, KEY)) == decided(full, hashing(KEY))


def test_one_name_is_one_hash():
    """A node is called alike as a node, as a label's value, and as where a pod runs."""
    found = redact(a_document(a_pod("one", node="a0-r0-n0", gated=False)), KEY)

    assert found.pods[0].node == found.nodes[0].name == found.nodes[0].labels["kubernetes.io/hostname"]


def test_another_key_gives_other_names():
    """Who guesses a name cannot recognize it: the hash is another one in each snapshot."""
    one, other = (redact(a_document(a_pod("one")), key) for key in (KEY, b"other"))

    assert one.pods[0].key.name != other.pods[0].key.name


def test_twice_is_once():
    """A redacted document, redacted again, is decided alike again."""
    once = redact(in_turn(a_full_document()), KEY)

    assert decided(redact(once, KEY)) == decided(once, hashing(KEY))


def test_free_text_is_gone():
    """What people wrote in sentences is not in the document, hashed or not; that it was there is."""
    found = redact(a_full_document(), KEY)

    assert {pod.preempted.words for pod in found.pods if pod.preempted} == {HIDDEN}
    assert {own.remedy for pod in found.pods for own in pod.complaints} == {HIDDEN}


WORD = st.from_regex(r"[ab1]([-ab1._]{0,4}[ab1])?", fullmatch=True)


@QUICK
@given(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=8, unique=True))
def test_domains_keep_their_nodes(places):
    """Every node shares the domains of each level with the nodes that it shared them with."""
    nodes = [a_node(f"n{i}", area=area, rack=rack) for i, (area, rack) in enumerate(places)]
    document = msgspec.structs.replace(a_document(), nodes=tuple(nodes))

    before, after = (
        survey(own.policy.levels, [node.labels for node in own.nodes]).coords
        for own in (document, redact(document, KEY))
    )

    assert ((before[:, None] == before[None]) == (after[:, None] == after[None])).all()
    assert ((before < 0) == (after < 0)).all()


@pytest.mark.parametrize("gang", ["uid", "uid1", "vgg", "alexnet", "uid-2"])
def test_gangs_and_pods_without_one_stay_apart(gang):
    """The key of a pod alone is known as such, and no gang's name becomes one."""
    document = a_document(*some_gang(gang, 1), a_pod("single"))

    def alone(own):
        return sorted(record.key.name.startswith("uid:") for record in _records(own))

    assert alone(redact(document, KEY)) == alone(document) == [False, True]


@pytest.mark.parametrize("namespace", ["kube-system", "kube-secret", "gangwright-system", "team"])
def test_namespaces_that_give_no_way_stay_so(namespace):
    """Of which namespaces no pod is evicted is told by their names, and stays true."""
    found = redact(a_document(a_pod("one", namespace=namespace)), KEY).pods[0].key

    assert found.off_limits is PodKey(namespace, "one").off_limits
    assert "secret" not in found.namespace


def test_the_reason_on_a_pod_stays():
    """It is of a closed list, and says which gangs were ended for good."""
    pod = replace(a_pod("one"), told="RuntimeExceeded")

    assert redact(a_document(pod), KEY).pods[0].told == "RuntimeExceeded"


def _records(document):
    return judge(document).engine.ledger.registry.gangs.values()


def test_labels_that_stand_for_claims_are_hashed_with_the_key():
    """The rule of one pod still selects the label of another, and neither shows the hash of the claim's name."""
    label = user_of("volume", ("team", "data"))
    users = PodSelector(("team",), None, (Requirement(label, Operator.EXISTS),))
    rules = Neighbors(beside=(PodTerm(NODE, users),))
    document = a_document(a_pod("one", labels=f"{label}=", neighbors=rules), a_pod("two", labels=f"{label}="))
    redacted = redact(document, KEY)
    assert label.encode() not in encode(redacted)
    (key,) = {own for pod in redacted.pods for own in read_labels(pod.labels)}
    assert redacted.pods[0].neighbors.beside[0].pods.labels == (Requirement(key, Operator.EXISTS),)
