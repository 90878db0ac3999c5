"""Terms of node selectors: read, narrowed, written."""

import msgspec
import pytest

from scheduler.model.demand import Operator, Requirement, Term
from scheduler.objects.affinity import can_be_narrowed, narrowed, pinned_to, terms, written
from scheduler.objects.api_affinity import NodeSelector

SELECTOR = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["b", "a"]},
                {"key": "gpu", "operator": "Exists"},
            ]
        },
        {
            "matchExpressions": [{"key": "age", "operator": "Gt", "values": ["5"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}],
        },
    ]
}
PIN = Requirement("metadata.name", Operator.IN, ("n1",))


def read(selector: object):
    return terms(msgspec.convert(selector, NodeSelector))


def test_what_is_read_is_written_back_unchanged() -> None:
    """A pin must repeat every term as it was, or the API server refuses it."""
    assert written(read(SELECTOR)) == SELECTOR["nodeSelectorTerms"]


def test_each_term_is_narrowed_at_its_end() -> None:
    """What a term had stays in its place, and the pin is its last field."""
    before, after = read(SELECTOR), narrowed(read(SELECTOR), "n1")
    assert [term.labels for term in after] == [term.labels for term in before]
    assert [term.fields for term in after] == [(*term.fields, PIN) for term in before]
    assert pinned_to(after) == "n1"


def test_a_pod_without_terms_gets_one() -> None:
    """The pin alone."""
    assert narrowed((), "n1") == (Term(fields=(PIN,)),)


def test_a_term_without_requirements_stays_without() -> None:
    """It matches no node, and a requirement added to it would make it match one."""
    assert narrowed((Term(), Term((Requirement("a", Operator.EXISTS),))), "n1")[0] == Term()
    assert not can_be_narrowed((Term(),))
    assert can_be_narrowed(read(SELECTOR))


@pytest.mark.parametrize(
    "fields",
    [
        [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
        [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}],
        [{"key": "metadata.uid", "operator": "In", "values": ["n1"]}],
        [],
    ],
)
def test_other_fields_pin_nothing(fields: list) -> None:
    """Only `metadata.name In [one]` does."""
    selector = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchFields": fields}
        ]
    }
    assert pinned_to(read(selector)) is None


def test_an_unknown_operator_matches_nothing() -> None:
    """As in kube-scheduler, where a term that cannot be read matches no node."""
    assert read({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}) == (
        Term(),
    )
