"""Label selectors, and node selectors as terms of the model and back.

Never here: whether a node matches (`placement`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from scheduler.model.demand import AnyOf, Operator, Requirement, Term
from scheduler.objects.api_affinity import LabelSelector, NodeSelector, SelectorRequirement, SelectorTerm

NODE_NAME: Final = "metadata.name"
"""The only node field that terms may use."""

NOWHERE: Final = (Term(),)
"""A term without conditions matches no node."""

_OPERATORS: Final = {operator.value: operator for operator in Operator}


def terms(selector: NodeSelector | None) -> AnyOf:
    """The terms of a node selector. No selector gives no terms. A selector without terms matches nothing."""
    if selector is None:
        return ()
    return tuple(_term(term) for term in selector.node_selector_terms or ()) or NOWHERE


def _term(term: SelectorTerm) -> Term:
    labels, fields = _requirements(term.match_expressions), _requirements(term.match_fields)
    # In kube-scheduler, an invalid term matches nothing.
    return Term() if labels is None or fields is None else Term(labels, fields)


def _requirements(said: Sequence[SelectorRequirement] | None) -> tuple[Requirement, ...] | None:
    if any(own.operator not in _OPERATORS for own in said or ()):
        return None
    return tuple(
        Requirement(own.key, _OPERATORS[own.operator], tuple(own.values or ())) for own in said or ()
    )


def label_requirements(selector: LabelSelector | None) -> tuple[Requirement, ...] | None:
    """The requirements of a label selector. None: no selector, or an invalid one, which matches nothing."""
    if selector is None:
        return None
    equal = [
        Requirement(key, Operator.IN, (value,))
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    others = _requirements(selector.match_expressions)
    if others is None or any(own.operator in {Operator.GREATER, Operator.LESS} for own in others):
        return None
    return (*equal, *others)


def pinned_to(any_of: AnyOf) -> str | None:
    """The one node that every term names, if it exists. Terms that match nothing name nothing."""
    names = {_named(term) for term in any_of if term.labels or term.fields}
    return names.pop() if len(names) == 1 else None


def _named(term: Term) -> str | None:
    for field in term.fields:
        if field.key == NODE_NAME and field.operator is Operator.IN and len(field.values) == 1:
            return field.values[0]
    return None


def can_be_narrowed(any_of: AnyOf) -> bool:
    """Whether a pin can be added. The API rejects a new requirement in a term without any."""
    return all(term.labels or term.fields for term in any_of)


def narrowed(any_of: AnyOf, node: str) -> AnyOf:
    """The same terms, each limited to this node. Without terms, a single term that names the node."""
    pin = Requirement(NODE_NAME, Operator.IN, (node,))
    if not any_of:
        return (Term(fields=(pin,)),)
    return tuple(
        Term(term.labels, (*term.fields, pin)) if term.labels or term.fields else term for term in any_of
    )


def unpinned(any_of: AnyOf, node: str) -> AnyOf:
    """The same terms without the name of this node. This undoes `narrowed`."""
    pin = Requirement(NODE_NAME, Operator.IN, (node,))
    bare = tuple(Term(term.labels, tuple(own for own in term.fields if own != pin)) for term in any_of)
    return bare if all(term.labels or term.fields for term in bare) else ()


def written(any_of: AnyOf) -> list[dict[str, Any]]:
    """The terms as JSON. Empty parts are left out, as by the API server."""
    parts = (("matchExpressions", "labels"), ("matchFields", "fields"))
    return [
        {name: _written(getattr(term, part)) for name, part in parts if getattr(term, part)}
        for term in any_of
    ]


def _written(requirements: Iterable[Requirement]) -> list[dict[str, Any]]:
    return [
        {"key": own.key, "operator": own.operator.value}
        | ({"values": list(own.values)} if own.values else {})
        for own in requirements
    ]
