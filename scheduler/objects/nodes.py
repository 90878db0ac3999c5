"""A Node of the API as a node of the model."""

from typing import Final

from scheduler.model.cluster import Node
from scheduler.model.demand import Taint, TaintEffect
from scheduler.model.resources import EXACT, PODS, InvalidQuantity, amounts
from scheduler.model.workload import Complaint
from scheduler.objects import api
from scheduler.objects.interner import Interner
from scheduler.objects.parsing import shown
from scheduler.objects.pod_demand import is_counted, thousandths, whole

_EFFECTS: Final = {effect.value: effect for effect in TaintEffect}


def node(found: api.Node, interner: Interner) -> tuple[Node, tuple[Complaint, ...]]:
    """The node, and complaints about invalid quantities. The node counts as having none of such a resource."""
    counted: dict[str, int] = {}
    complaints: list[Complaint] = []
    for name, text in (found.status.allocatable or {}).items():
        if not is_counted(name) and name != PODS:
            continue
        try:
            counted |= _units(name, text)
        except InvalidQuantity as wrong:
            remedy = "the node counts as having none of this resource"
            complaints.append(Complaint(f"status.allocatable.{name}", shown(str(wrong)), remedy, fatal=False))
    taints = tuple(
        Taint(own.key, own.value, _EFFECTS[own.effect])
        for own in found.spec.taints or ()
        if own.effect in _EFFECTS
    )
    return Node(
        name=found.metadata.name,
        capacity=interner.one(amounts(counted)),
        labels=dict(found.metadata.labels or {}),
        taints=interner.one(taints),
        schedulable=not found.spec.unschedulable,
    ), tuple(complaints)


def _units(name: str, text: api.Quantity) -> dict[str, int]:
    value = thousandths(text)
    if name != PODS:
        return whole({name: value})
    count = -(-value // 1000)
    if count > EXACT:
        raise InvalidQuantity(f"more than {EXACT} of {PODS}")
    return {PODS: count}
