"""Gangs with volumes: planned where their claims can be bound and attached."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.decision import Decision, Place, Reason, Wait
from scheduler.model.demand import Operator, Requirement, Term
from scheduler.model.policy import Policy
from scheduler.objects import api, storage_kinds
from scheduler.objects.translate import Translator
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_gang_on_its_way, nodes_of, seats
from tests.engine.support.world import World
from tests.objects.reading import struct
from tests.support.builders import a_node

NODE = """{metadata: {name: %s, labels: {kubernetes.io/hostname: %s, zone: %s}},
  status: {allocatable: {cpu: '32', memory: 64Gi, pods: '110'}}}"""
POD = """
metadata: {name: train-%d, namespace: team, uid: uid-%d, labels: {gangwright.io/gang: train},
  annotations: {gangwright.io/min-members: '4'}}
spec: {schedulerName: gangwright, schedulingGates: [{name: gangwright.io/planned}],
  containers: [{resources: {requests: {cpu: '1'}}}],
  volumes: [{name: v, persistentVolumeClaim: {claimName: data-%d}}]}
"""
CLASS = "{metadata: {name: fast}, provisioner: '%s', volumeBindingMode: WaitForFirstConsumer, %s}"
CLAIM = """{metadata: {name: data-%d, namespace: team}, status: {phase: Pending}, spec: {storageClassName: fast,
  accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"""
LIMIT = "{metadata: {name: %s}, spec: {drivers: [{name: csi.example, allocatable: {count: %d}}]}}"
VOLUME = """{metadata: {name: %s}, status: {phase: Available}, spec: {storageClassName: fast,
  accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, nodeAffinity: {required: {nodeSelectorTerms: [
  {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}}"""
NODES = {"n0": "a", "n1": "a", "n2": "b", "n3": "b"}


def decided(storage: Iterable[object]) -> Decision:
    """What becomes of a gang of four, each with a claim of its own, on four nodes in two zones."""
    translator, engine = Translator(), Engine(Policy())
    found: list[object] = [*(struct(api.Node, NODE % (name, name, zone)) for name, zone in NODES.items())]
    found += [*storage, *(struct(storage_kinds.PersistentVolumeClaim, CLAIM % n) for n in range(4))]
    found += [struct(api.Pod, POD % (n, n, n)) for n in range(4)]
    events = [event for own in found for event in translator.seen(own)]
    assert not any(event.pod.unmodeled for event in events if isinstance(event, ev.PodSeen))
    engine.observe([*events, ev.Synced(), ev.TookOver()], 0.0)
    question = engine.ask(0.0)
    assert question is not None
    return engine.answer(question)


def per_node(decision: Decision) -> dict[str, int]:
    assert isinstance(decision, Place)
    nodes = list(decision.seats.values())
    return {name: nodes.count(name) for name in sorted(set(nodes))}


def a_class(provisioner: str = "csi.example", more: str = "") -> object:
    return struct(storage_kinds.StorageClass, CLASS % (provisioner, more))


def test_a_gang_is_planned_in_the_zone_of_its_class() -> None:
    """Its claims have no volumes yet, and their class allows one zone."""
    zone = "allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [b]}]}]"
    assert per_node(decided([a_class(more=zone)])).keys() <= {"n2", "n3"}


def test_the_number_of_volumes_that_nodes_attach_spreads_a_gang() -> None:
    """Without limits, one node takes all four. Nodes without a limit still do if the others have one."""
    limits = [struct(storage_kinds.CSINode, LIMIT % (name, 2)) for name in NODES]
    assert per_node(decided([a_class(), *limits])) == {"n0": 2, "n1": 2}
    assert list(per_node(decided([a_class()])).values()) == [4]
    assert per_node(decided([a_class(), *limits[:2], *limits[3:]])) == {"n2": 4}


def test_a_gang_waits_if_its_volumes_cannot_be_attached() -> None:
    """All nodes together attach three, and the gang needs four."""
    limits = [struct(storage_kinds.CSINode, LIMIT % (name, name != "n3")) for name in NODES]
    decision = decided([a_class(), *limits])
    assert isinstance(decision, Wait)
    assert decision.reason is Reason.EXCEEDS_CLUSTER
    assert "volumes" not in str(decision)


@pytest.mark.parametrize("free", [3, 4])
def test_local_volumes_are_shared_out_like_devices(free: int) -> None:
    """A gang of four starts if four volumes exist, on the nodes that have them."""
    volumes = [struct(storage_kinds.PersistentVolume, VOLUME % (f"pv{n}", f"n{n % 2}")) for n in range(free)]
    decision = decided([a_class("kubernetes.io/no-provisioner"), *volumes])
    if free == 4:
        assert per_node(decision) == {"n0": 2, "n1": 2}
    else:
        assert isinstance(decision, Wait)


ELSEWHERE = (Term((Requirement("zone", Operator.IN, ("b",)),)),)


@pytest.mark.parametrize("soft", [True, False])
def test_a_gang_whose_storage_moves_before_it_is_bound_is_planned_again(soft: bool) -> None:
    """A class, a capacity or a volume may change after the plan. No node is overcommitted meanwhile."""
    nodes = [a_node(f"n{n}", gpu=2, rack="r", labels={"zone": "ab"[n // 2]}) for n in range(4)]
    world = World(nodes, Policy())
    a_gang_on_its_way(world, soft=soft)
    for pod in world.pods("train"):
        terms = (*pod.demand.constraints, ELSEWHERE)
        world.api.write(replace(pod, demand=replace(pod.demand, constraints=terms)))
    world.settle(300)
    # Pinned pods are evicted, and the nodes are excluded for a while. Nominated pods get other nodes.
    assert nodes_of(world.bound("train")) == ["n2", "n3"]
    assert bool(world.api.evicted) is not soft


def test_a_gated_gang_is_planned_by_its_storage_of_that_time() -> None:
    """Members that wait for nodes are planned as soon as their storage names other nodes."""
    world = World([a_node(f"n{n}", gpu=2, rack="r", labels={"zone": "ab"[n]}) for n in range(2)], Policy())
    nowhere = (Term(),)
    pods = a_gang_of_pods("train", 2, gpu=1)
    world.submit([replace(p, demand=replace(p.demand, constraints=(nowhere,))) for p in pods])
    world.settle(60)
    assert seats(world, "train") == 0
    for pod in world.pods("train"):
        world.api.write(replace(pod, demand=replace(pod.demand, constraints=(ELSEWHERE,))))
    world.settle(60)
    assert nodes_of(world.bound("train")) == ["n1", "n1"]
