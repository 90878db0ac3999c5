"""Pods whose demand depends on claims of both kinds: volumes and devices."""

import pytest

from scheduler.model.events import NodeSeen, PodSeen
from scheduler.model.workload import Uid
from scheduler.objects import api, storage_kinds
from tests.objects.devices import (
    PLAIN,
    Desk,
    claim_of,
    class_of,
    device,
    node_of,
    pod_of,
    request,
    slice_of,
    template_of,
)
from tests.objects.reading import struct

ATTACHED = "attachable-volumes-csi-csi.example"
BOUND = "{metadata: {name: data, namespace: team}, spec: {volumeName: pv}, status: {phase: Bound}}"
UNBOUND = "{metadata: {name: data, namespace: team}}"
VOLUME = "{metadata: {name: pv}, spec: {csi: {driver: csi.example}}}"
LIMIT = "{metadata: {name: n1}, spec: {drivers: [{name: csi.example, allocatable: {count: %s}}]}}"


def with_volume(**said: str) -> api.Pod:
    """A pod with a volume, and with a claim of two devices."""
    pod = pod_of("a", template="two", made="a-d", **said)
    pod.spec.volumes = [api.Volume("v", api.ClaimSource("data"))]
    return pod


def allocated(*devices: str) -> object:
    return claim_of("a-d", request(count=2), owner="a", devices=[("n1", own) for own in devices])


def seen(events: list) -> list:
    return [event for event in events if isinstance(event, PodSeen)]


@pytest.fixture
def desk() -> Desk:
    """A node with four devices, a class for all of them, and a template for two devices."""
    own = Desk()
    own.see(class_of(), template_of("two", request(count=2)), node_of("n1"))
    own.see(slice_of("n1", [device(f"d{number}") for number in range(4)]))
    return own


def test_a_waiting_pod_follows_its_volumes_and_its_devices(desk: Desk) -> None:
    """Each change of one kind keeps what the other kind added. Equal objects are no events."""
    desk.see(with_volume())
    assert desk.pods["a"].unmodeled == ("spec.volumes: a claim does not exist yet",)
    assert desk.asks("a") == 2
    desk.see(
        struct(storage_kinds.PersistentVolumeClaim, BOUND), struct(storage_kinds.PersistentVolume, VOLUME)
    )
    assert (desk.pods["a"].unmodeled, desk.asks("a"), desk.asks("a", ATTACHED)) == ((), 2, 1)
    desk.lose(template_of("two"))
    assert desk.pods["a"].unmodeled == ("spec.resourceClaims: a claim template does not exist yet",)
    assert desk.asks("a", ATTACHED) == 1
    desk.see(template_of("two", request(count=3)))
    assert (desk.asks("a"), desk.asks("a", ATTACHED)) == (3, 1)
    for own in (
        template_of("two", request(count=3)),
        struct(storage_kinds.PersistentVolumeClaim, BOUND),
        struct(storage_kinds.PersistentVolume, VOLUME),
    ):
        assert desk.see(own) == []


def test_a_placed_pod_follows_its_devices_until_and_after_it_has_its_volumes(desk: Desk) -> None:
    """Both counts stay exact, whichever claim is allocated or bound last."""
    desk.see(struct(storage_kinds.PersistentVolumeClaim, UNBOUND))
    desk.see(with_volume(node="n1"), allocated("d0", "d1"))
    assert (desk.asks("a"), desk.asks("a", ATTACHED), desk.free("n1")) == (2, 0, 2)
    desk.see(struct(storage_kinds.PersistentVolume, VOLUME))
    assert len(seen(desk.see(struct(storage_kinds.PersistentVolumeClaim, BOUND)))) == 1
    assert (desk.asks("a"), desk.asks("a", ATTACHED), desk.free("n1")) == (2, 1, 2)
    assert desk.translator._pods._claims == {}
    desk.see(allocated("d0", "d1", "d2"))
    assert (desk.asks("a"), desk.asks("a", ATTACHED), desk.free("n1")) == (3, 1, 1)
    desk.lose(with_volume())
    assert desk.translator._pods._kept == {}


def test_the_result_depends_on_no_order_of_volumes_and_devices(desk: Desk) -> None:
    """A change of the devices before the volume is bound is not lost, nor counted twice."""
    desk.see(struct(storage_kinds.PersistentVolumeClaim, UNBOUND), with_volume(node="n1"))
    desk.see(allocated("d0"))
    desk.see(allocated("d0", "d1", "d2"))
    desk.see(
        struct(storage_kinds.PersistentVolume, VOLUME), struct(storage_kinds.PersistentVolumeClaim, BOUND)
    )
    other = Desk()
    other.see(
        struct(storage_kinds.PersistentVolume, VOLUME), struct(storage_kinds.PersistentVolumeClaim, BOUND)
    )
    other.see(class_of(), node_of("n1"), slice_of("n1", [device(f"d{number}") for number in range(4)]))
    other.see(template_of("two", request(count=2)), allocated("d0", "d1", "d2"), with_volume(node="n1"))
    assert desk.pods == other.pods
    assert desk.nodes == other.nodes


def test_a_node_has_its_volumes_and_its_devices(desk: Desk) -> None:
    """In any order of the objects. A limit of zero volumes is a limit. An equal node is no event."""
    (event,) = desk.see(struct(storage_kinds.CSINode, LIMIT % 0))
    assert isinstance(event, NodeSeen)
    assert (dict(event.node.capacity)[ATTACHED], desk.capacity("n1")) == (0, 4)
    desk.see(slice_of("n1", [device("d0")], generation=2))
    assert (dict(desk.nodes["n1"].capacity)[ATTACHED], desk.capacity("n1")) == (0, 1)
    assert desk.see(struct(storage_kinds.CSINode, LIMIT % 0)) == []
    desk.see(claim_of("c", request(), devices=[("n1", "d0")]))
    desk.see(node_of("n1"))
    assert (dict(desk.nodes["n1"].held), dict(desk.nodes["n1"].capacity)[ATTACHED]) == ({PLAIN: 1}, 0)
    desk.see(struct(storage_kinds.CSINode, LIMIT % 8))
    assert (dict(desk.nodes["n1"].held), dict(desk.nodes["n1"].capacity)[ATTACHED]) == ({PLAIN: 1}, 8)


def test_nothing_is_kept_of_an_ended_pod(desk: Desk) -> None:
    """Its claims may change, and it is translated no more."""
    desk.see(with_volume(node="n1"))
    desk.see(with_volume(node="n1", phase="Succeeded"))
    pods = desk.translator._pods
    assert (pods._kept, pods._claims, pods._claiming) == ({}, {}, {})
    assert pods.devices.renewed(Uid("uid-a")) is None
    assert seen(desk.see(struct(storage_kinds.PersistentVolumeClaim, BOUND))) == []
