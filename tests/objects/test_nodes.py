"""Nodes as the planner sees them."""

import pytest

from scheduler.model.demand import Taint, TaintEffect
from scheduler.objects import api
from scheduler.objects.interner import Interner
from scheduler.objects.nodes import node
from tests.objects.reading import struct

NODE = """
metadata: {name: n1, labels: {gangwright.io/rack: r1}}
spec:
  unschedulable: true
  taints:
    - {key: gpu, value: "yes", effect: NoSchedule}
    - {key: leaving, effect: NoExecute}
    - {key: slow, effect: PreferNoSchedule}
status:
  capacity: {cpu: "64"}
  allocatable: {cpu: 63500m, memory: 250Gi, pods: "110", nvidia.com/gpu: "8", storage: 1Ti, hugepages-1Gi: "0"}
"""


def test_a_node_is_read() -> None:
    """Allocatable counts, not capacity; taints that only prefer are not kept; cordoned is not schedulable."""
    found, complaints = node(struct(api.Node, NODE), Interner())
    assert dict(found.capacity) == {"cpu": 63500, "memory": 250 * 2**30, "pods": 110, "nvidia.com/gpu": 8}
    assert found.labels == {"gangwright.io/rack": "r1"}
    assert found.taints == (
        Taint("gpu", "yes", TaintEffect.NO_SCHEDULE),
        Taint("leaving", "", TaintEffect.NO_EXECUTE),
    )
    assert not found.schedulable
    assert complaints == ()


@pytest.mark.parametrize("text", ["1e3m", "-5", "much", "9" * 40])
def test_a_wrong_quantity_is_no_capacity(text: str) -> None:
    """The resource counts as absent, the rest of the node counts, and the complaint names field and value."""
    allocatable = f"status: {{allocatable: {{cpu: '{text}', pods: 10}}}}"
    found, complaints = node(struct(api.Node, f"metadata: {{name: n1}}\n{allocatable}"), Interner())
    assert found.capacity == (("pods", 10),)
    assert [(c.field, c.fatal) for c in complaints] == [("status.allocatable.cpu", False)]


def test_a_bare_node_is_read() -> None:
    """A node that has just been made says nothing of itself."""
    found, complaints = node(
        struct(api.Node, "metadata: {name: n1, labels: null}\nspec: {taints: null}"), Interner()
    )
    assert (found.capacity, found.labels, found.schedulable, complaints) == ((), {}, True, ())


def test_more_pods_than_can_be_counted_are_none() -> None:
    """An amount that a float64 would not hold exactly is told as a complaint, also of pods."""
    text = "{metadata: {name: n}, status: {allocatable: {pods: '9007199254740993', cpu: '1'}}}"
    found, complaints = node(struct(api.Node, text), Interner())

    assert dict(found.capacity) == {"cpu": 1000}
    assert [complaint.field for complaint in complaints] == ["status.allocatable.pods"]
