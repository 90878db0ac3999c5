"""Devices as capacity: pools, taints, classes, selectors, and what is not modeled."""

import pytest

from scheduler.objects import device_api, device_slices
from scheduler.objects.device_slices import TOO_MANY
from tests.objects.devices import (
    PLAIN,
    Desk,
    _read,
    class_of,
    device,
    named,
    node_of,
    pod_of,
    request,
    slice_of,
    template_of,
)

TWO = [device("a"), device("b")]
TAINT = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
BIG = 'device.attributes["gpu.example.com"].size > 1'


def rule_of(name: str, taint: dict, **selector: str) -> device_api.DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": taint}
    return _read(device_api.DeviceTaintRule, metadata=named(name), spec=spec)


@pytest.fixture
def desk():
    """Two nodes and one class for all devices."""
    own = Desk()
    own.see(class_of(), node_of("n1"), node_of("n2"))
    return own


def test_only_the_newest_whole_generation_counts(desk):
    """A pool that is being replaced has nothing until its last slice exists."""
    desk.see(slice_of("n1", TWO))
    assert desk.capacity("n1") == 2
    desk.see(slice_of("n1", [device("c")], name="new-0", generation=2, count=2))
    assert desk.capacity("n1") == 0
    desk.see(slice_of("n1", [device("d")], name="new-1", generation=2, count=2))
    assert desk.capacity("n1") == 2
    desk.lose(slice_of("n1", TWO))
    assert desk.capacity("n1") == 2
    desk.see(slice_of("n1", [device("c")], name="new-1", generation=2, count=2))
    assert desk.capacity("n1") == 0  # a name twice: the pool is invalid


def test_a_slice_moves_and_leaves(desk):
    """Its devices are where it says, and gone with it."""
    desk.see(slice_of("n1", TWO, name="s"))
    desk.see(slice_of("n2", TWO, name="s"))
    assert (desk.capacity("n1"), desk.capacity("n2")) == (0, 2)
    desk.lose(slice_of("n2", TWO, name="s"))
    assert desk.capacity("n2") == 0


def test_tainted_devices_count_for_those_who_tolerate_it(desk):
    """A taint of the slice, and one of a rule, until the rule is gone. The effect None prevents nothing."""
    desk.see(
        slice_of(
            "n1",
            [device("a", taints=[TAINT]), device("b"), device("c", taints=[{**TAINT, "effect": "None"}])],
        )
    )
    assert desk.capacity("n1") == 2
    tolerant = request(tolerations=[{"key": "sick", "operator": "Exists"}])
    desk.see(template_of("t", tolerant), pod_of("p", template="t"))
    (name,) = (name for name, _ in desk.pods["p"].demand.requests if "~" in name)
    assert desk.capacity("n1", name) == 3
    rule = rule_of("r", TAINT, driver="gpu.example.com", pool="n1", device="b")
    desk.see(rule)
    assert (desk.capacity("n1"), desk.capacity("n1", name)) == (1, 3)
    desk.see(rule_of("r", TAINT, driver="other"))
    assert desk.capacity("n1") == 2
    desk.see(rule)
    desk.lose(rule)
    assert desk.capacity("n1") == 2


def test_selectors_of_class_and_request_both_count(desk):
    """A request asks for its own column; whoever asks for it also takes from the class."""
    desk.see(slice_of("n1", [device(f"d{n}", size=n) for n in range(4)]))
    desk.see(template_of("big", request("gpu", 2, BIG)), pod_of("p", template="big"))
    (name,) = (name for name, _ in desk.pods["p"].demand.requests if "~" in name)
    assert desk.capacity("n1", name) == 2
    assert (desk.asks("p", name), desk.asks("p")) == (2, 2)
    desk.see(class_of("gpu", 'device.attributes["gpu.example.com"].size < 3'))
    assert (desk.capacity("n1"), desk.capacity("n1", name)) == (3, 1)


def test_a_class_that_no_longer_exists_has_nothing(desk):
    """Pods that ask for it wait for it."""
    desk.see(slice_of("n1", TWO), template_of("t", request()), pod_of("p", template="t"))
    desk.lose(class_of())
    assert (desk.capacity("n1"), desk.asks("p"), desk.pods["p"].unmodeled) == (0, 1, ())
    desk.see(class_of())
    assert desk.capacity("n1") == 2


ODD = {
    "devices with shared counters": {"consumesCounters": [{}]},
    "devices that allow multiple allocations": {"allowMultipleAllocations": True},
    "devices with binding conditions": {"bindingConditions": ["ready"]},
    "devices that use resources of the node": {"nodeAllocatableResources": {"cpu": {}}},
}


@pytest.mark.parametrize("text", ODD)
def test_odd_devices_are_not_modeled(desk, text):
    """One of them is enough, for the classes that select it, as long as it exists."""
    odd = slice_of("n2", [{**device("x"), **ODD[text]}])
    desk.see(slice_of("n1", TWO), odd, class_of("none", "false"))
    desk.see(template_of("t", request()), pod_of("p", template="t"))
    desk.see(template_of("u", request("none")), pod_of("q", template="u"))
    assert desk.pods["p"].unmodeled == (f"spec.resourceClaims: device class gpu has {text}",)
    assert (desk.asks("p"), desk.pods["q"].unmodeled) == (0, ())
    desk.lose(odd)
    assert (desk.asks("p"), desk.pods["p"].unmodeled) == (1, ())


@pytest.mark.parametrize("more", [{"allNodes": True}, {"nodeSelector": {}}, {"perDeviceNodeSelection": True}])
def test_devices_of_several_nodes_are_not_modeled(desk, more):
    """kube-scheduler may allocate them anywhere."""
    desk.see(slice_of("n1", TWO), slice_of("net", TWO, nodeName=None, **more))
    desk.see(template_of("t", request()), pod_of("p", template="t"))
    text = "spec.resourceClaims: device class gpu has devices that do not belong to one node"
    assert desk.pods["p"].unmodeled == (text,)


def test_a_selector_that_fails_is_named(desk):
    """Whether it is the class's or the request's own."""
    desk.see(slice_of("n1", [device("a")]), class_of("bad", 'device.attributes["x"].y == 1'))
    desk.see(template_of("t", request("bad")), pod_of("p", template="t"))
    desk.see(template_of("u", request("gpu", 1, "oops(")), pod_of("q", template="u"))
    said = "spec.resourceClaims: the selector of {} is not supported: {}"
    assert desk.pods["p"].unmodeled == (said.format("device class bad", "it fails for a device"),)
    assert desk.pods["q"].unmodeled == (said.format("a request", "an expression cannot be parsed"),)


def test_columns_are_bounded(desk, monkeypatch):
    """What is one too many is named; when another leaves, it is counted."""
    monkeypatch.setattr(device_slices, "COLUMNS", 3)
    desk.see(slice_of("n1", [device("a", size=9)]))
    for number in range(3):
        text = f'device.attributes["gpu.example.com"].size > {number}'
        desk.see(
            template_of(f"t{number}", request("gpu", 1, text)), pod_of(f"p{number}", template=f"t{number}")
        )
    assert [desk.pods[f"p{number}"].unmodeled for number in range(3)] == [(), (), (TOO_MANY,)]
    desk.lose(pod_of("p0"))
    desk.see(node_of("n1"))
    assert desk.pods["p2"].unmodeled == ()
    assert desk.capacity("n1", next(n for n, _ in desk.pods["p2"].demand.requests if "~" in n)) == 1


def test_a_node_may_come_after_its_slices(desk):
    """And come back."""
    desk.see(slice_of("n3", TWO))
    desk.see(node_of("n3"))
    assert desk.capacity("n3") == 2
    desk.lose(node_of("n3"))
    desk.see(node_of("n3"))
    assert dict(desk.nodes["n3"].capacity)[PLAIN] == 2
