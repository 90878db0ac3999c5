"""The door: objects in, events out."""

from typing import get_args

from scheduler.model.events import (
    BudgetGone,
    BudgetSeen,
    GroupGone,
    GroupSeen,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    QuotaGone,
    QuotaSeen,
)
from scheduler.model.workload import GangKey, OwnerTraits, PodKey, Uid
from scheduler.objects import api, device_api, storage_kinds
from scheduler.objects.translate import Translator
from scheduler.objects.watched_resources import RESOURCES
from tests.objects.reading import struct

META = "metadata: {name: o, namespace: team, uid: u}"
POD = """
metadata: {name: %s, namespace: team, uid: %s, ownerReferences: [
  {apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: owner, controller: true}]}
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], nodeName: "%s"}
"""
CLAIM = "{metadata: {name: data, namespace: team}, spec: {volumeName: pv}, status: {phase: Bound}}"


def pod_of(name: str, node: str = "") -> api.Pod:
    return struct(api.Pod, POD % (name, f"uid-{name}", node))


def gaps(events: list) -> list[tuple[str, ...]]:
    return [event.pod.unmodeled for event in events if isinstance(event, PodSeen)]


EVENTS = {
    api.Pod: (PodSeen, PodGone(Uid("u"), PodKey("team", "o"))),
    api.Node: (NodeSeen, NodeGone("o")),
    api.Job: (OwnerSeen, OwnerGone("u")),
    api.StatefulSet: (OwnerSeen, OwnerGone("u")),
    api.ResourceQuota: (QuotaSeen, QuotaGone("team", "o")),
    api.PodDisruptionBudget: (BudgetSeen, BudgetGone("team", "o")),
    api.PluginsPodGroup: (GroupSeen, GroupGone("scheduler-plugins", GangKey("team", "o"))),
    api.VolcanoPodGroup: (GroupSeen, GroupGone("volcano", GangKey("team", "o"))),
    api.KoordinatorPodGroup: (GroupSeen, GroupGone("koordinator", GangKey("team", "o"))),
    api.KaiPodGroup: (GroupSeen, GroupGone("kai", GangKey("team", "o"))),
    api.Namespace: (NamespaceSeen, NamespaceSeen("o", None)),
    **dict.fromkeys(get_args(storage_kinds.StorageObject), (None, None)),
    **dict.fromkeys(get_args(device_api.DeviceObject), (None, None)),
}


def test_every_watched_kind_is_translated() -> None:
    """Seen and gone of each; storage alone says nothing as long as no pod asks for it."""
    translator = Translator()
    assert {resource.type for resource in RESOURCES} == set(EVENTS)
    for kind, (seen, gone) in EVENTS.items():
        assert [type(event) for event in translator.seen(struct(kind, META))] == ([seen] if seen else [])
        assert translator.gone(kind, "team", "o", "u") == ([gone] if gone else [])


def test_waiting_pods_are_told_anew_when_their_claim_is_bound() -> None:
    """Volume and claim may come in either order; a pod with a node is told nothing more."""
    translator = Translator()
    assert gaps(translator.seen(pod_of("a"))) == [("spec.volumes: a claim does not exist yet",)]
    translator.seen(pod_of("b", node="n1"))
    assert gaps(translator.seen(struct(storage_kinds.PersistentVolumeClaim, CLAIM))) == [
        ("spec.volumes: a claim is not bound yet",)
    ]
    assert gaps(translator.seen(struct(storage_kinds.PersistentVolume, "metadata: {name: pv}"))) == [()]
    assert gaps(translator.gone(storage_kinds.PersistentVolume, "", "pv", "x")) == [
        ("spec.volumes: a claim is not bound yet",)
    ]
    assert gaps(translator.gone(storage_kinds.PersistentVolumeClaim, "team", "data", "x")) == [
        ("spec.volumes: a claim does not exist yet",)
    ]


def test_pods_that_left_or_got_a_node_are_not_told_anew() -> None:
    """Nothing of them is kept."""
    translator = Translator()
    translator.seen(pod_of("a"))
    translator.seen(pod_of("b"))
    translator.gone(api.Pod, "team", "a", "uid-a")
    translator.seen(pod_of("b", node="n1"))
    assert translator.seen(struct(storage_kinds.PersistentVolumeClaim, CLAIM)) == []


def test_an_owner_known_by_its_kind_lives_as_long_as_its_pods() -> None:
    """Told with the first pod, gone with the last, and told again with the next."""
    translator = Translator()
    told = OwnerSeen(OwnerTraits("owner", remakes_freely=True))
    assert translator.seen(pod_of("a"))[:-1] == [told]
    assert translator.seen(pod_of("b"))[:-1] == []
    assert translator.seen(pod_of("a"))[:-1] == []
    assert translator.gone(api.Pod, "team", "a", "uid-a") == [PodGone(Uid("uid-a"), PodKey("team", "a"))]
    assert translator.gone(api.Pod, "team", "b", "uid-b")[1:] == [OwnerGone("owner")]
    assert translator.seen(pod_of("a"))[:-1] == [told]


def test_what_is_wrong_with_a_node_is_kept_until_it_is_mended() -> None:
    """For the status page and the log."""
    translator = Translator()
    node = "{metadata: {name: n1}, status: {allocatable: {cpu: '%s'}}}"
    translator.seen(struct(api.Node, node % "much"))
    assert [c.field for c in translator.node_complaints["n1"]] == ["status.allocatable.cpu"]
    translator.seen(struct(api.Node, node % "4"))
    assert translator.node_complaints == {}
    translator.seen(struct(api.Node, node % "much"))
    translator.gone(api.Node, "", "n1", "u")
    assert translator.node_complaints == {}


CLASS = """{metadata: {name: fast}, provisioner: csi.example, volumeBindingMode: WaitForFirstConsumer,
  allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [%s]}]}]}"""
LATE = (
    "{metadata: {name: data, namespace: team}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce]}}"
)
LIMIT = "{metadata: {name: n1}, spec: {drivers: [{name: csi.example, allocatable: {count: %s}}]}}"


def test_pods_are_translated_again_when_their_class_changes() -> None:
    """In any order of claim, class and pod. An equal class is no event, nor is one that no claim waits for."""
    translator = Translator()
    assert translator.seen(struct(storage_kinds.StorageClass, CLASS % "a")) == []
    assert translator.seen(struct(storage_kinds.PersistentVolumeClaim, LATE)) == []
    ((seen),) = (event for event in translator.seen(pod_of("a")) if isinstance(event, PodSeen))
    assert (seen.pod.unmodeled, seen.pod.demand.constraints[0][0].labels[0].values) == ((), ("a",))
    (changed,) = translator.seen(struct(storage_kinds.StorageClass, CLASS % "b"))
    assert changed.pod.demand.constraints[0][0].labels[0].values == ("b",)
    assert translator.seen(struct(storage_kinds.StorageClass, CLASS % "b")) == []
    assert gaps(translator.gone(storage_kinds.StorageClass, "", "fast", "x")) == [
        ("spec.volumes: a claim's StorageClass is unknown",)
    ]


def test_limits_of_volumes_are_resources_of_the_node() -> None:
    """Whichever of the two objects comes first. An equal limit is no event."""
    node = struct(api.Node, "{metadata: {name: n1}, status: {allocatable: {cpu: '4'}}}")
    first, second = Translator(), Translator()
    assert first.seen(struct(storage_kinds.CSINode, LIMIT % 2)) == []
    (whole,) = first.seen(node)
    second.seen(node)
    assert second.seen(struct(storage_kinds.CSINode, LIMIT % 2)) == [whole]
    assert second.seen(struct(storage_kinds.CSINode, LIMIT % 2)) == []
    assert dict(whole.node.capacity) == {"cpu": 4000, "attachable-volumes-csi-csi.example": 2}
    (bare,) = second.gone(storage_kinds.CSINode, "", "n1", "x")
    assert dict(bare.node.capacity) == {"cpu": 4000}


def test_a_placed_pod_attaches_its_volumes_whichever_object_comes_last() -> None:
    """Pods of every scheduler count. Nothing is kept of a pod that has a node and all of its volumes."""
    translator = Translator()
    placed = pod_of("a", node="n1")
    placed.spec.scheduler_name = "default-scheduler"
    translator.seen(placed)
    assert translator.seen(struct(storage_kinds.PersistentVolumeClaim, CLAIM)) == []
    volume = "{metadata: {name: pv}, spec: {csi: {driver: csi.example}}}"
    (seen,) = translator.seen(struct(storage_kinds.PersistentVolume, volume))
    assert dict(seen.pod.demand.requests)["attachable-volumes-csi-csi.example"] == 1
    assert translator._pods._claiming == {}
    assert translator._pods._claims == {}
    assert translator._pods._kept == {}


def test_the_second_pod_of_a_claim_binds_both_to_one_node() -> None:
    """And its end leaves the first free again."""
    translator = Translator()
    translator.seen(struct(storage_kinds.StorageClass, CLASS % "a"))
    translator.seen(struct(storage_kinds.PersistentVolumeClaim, LATE))

    def beside(events) -> list[int]:
        return [len(event.pod.neighbors.beside) for event in events if isinstance(event, PodSeen)]

    assert beside(translator.seen(pod_of("a"))) == [0]
    assert beside(translator.seen(pod_of("b"))) == [1, 1]
    assert beside(translator.gone(api.Pod, "team", "b", "uid-b")) == [0]


def test_local_volumes_are_resources_of_their_host() -> None:
    """As soon as a claim waits for their kind, and until none does."""
    translator = Translator()
    host = "{metadata: {name: n1, labels: {kubernetes.io/hostname: h1}}, status: {allocatable: {cpu: '4'}}}"
    translator.seen(struct(api.Node, host))
    klass = "{metadata: {name: fast}, provisioner: '', volumeBindingMode: WaitForFirstConsumer}"
    translator.seen(struct(storage_kinds.StorageClass, klass))
    volume = """{metadata: {name: pv}, status: {phase: Available}, spec: {storageClassName: fast,
      accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, nodeAffinity: {required: {nodeSelectorTerms: [
      {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [h1]}]}]}}}}"""
    assert translator.seen(struct(storage_kinds.PersistentVolume, volume)) == []
    (seen,) = translator.seen(struct(storage_kinds.PersistentVolumeClaim, LATE))
    (name,) = dict(seen.node.capacity).keys() - {"cpu"}
    (pod,) = (event.pod for event in translator.seen(pod_of("a")) if isinstance(event, PodSeen))
    assert dict(pod.demand.requests)[name] == 1
    gone = translator.gone(storage_kinds.PersistentVolumeClaim, "team", "data", "x")
    assert [dict(event.node.capacity) for event in gone if isinstance(event, NodeSeen)] == [{"cpu": 4000}]
