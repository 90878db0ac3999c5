"""A PodDisruptionBudget of the API as a budget of the model.

The number of allowed disruptions is the API server's own count in the status: 0 until it is computed.
"""

from typing import Final

from scheduler.model.demand import Operator, Requirement
from scheduler.model.workload import Budget
from scheduler.objects import api

_OPERATORS: Final = {
    own.value: own for own in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


def budget(found: api.PodDisruptionBudget) -> Budget:
    """The budget. With an invalid selector it covers no pod, as for the API server."""
    meta = found.metadata
    return Budget(meta.namespace, meta.name, _selector(found.spec.selector), found.status.disruptions_allowed)


def _selector(said: api.LabelSelector | None) -> tuple[Requirement, ...] | None:
    if said is None:
        return None
    equal = [
        Requirement(key, Operator.IN, (value,)) for key, value in sorted((said.match_labels or {}).items())
    ]
    read = [(own, _OPERATORS.get(own.operator)) for own in said.match_expressions or ()]
    others = [Requirement(own.key, how, tuple(own.values or ())) for own, how in read if how is not None]
    return (*equal, *others) if len(others) == len(read) else None
