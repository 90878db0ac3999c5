"""The door: objects in, events out."""

from typing import get_args

from scheduler.model.events import (
    BudgetGone,
    BudgetSeen,
    GroupGone,
    GroupSeen,
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
from scheduler.objects import api, device_api
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
    api.PersistentVolume: (None, None),
    **dict.fromkeys(get_args(device_api.DeviceObject), (None, None)),
    api.PersistentVolumeClaim: (None, None),
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
    assert gaps(translator.seen(struct(api.PersistentVolumeClaim, CLAIM))) == [
        ("spec.volumes: a claim is not bound yet",)
    ]
    assert gaps(translator.seen(struct(api.PersistentVolume, "metadata: {name: pv}"))) == [()]
    assert gaps(translator.gone(api.PersistentVolume, "", "pv", "x")) == [
        ("spec.volumes: a claim is not bound yet",)
    ]
    assert gaps(translator.gone(api.PersistentVolumeClaim, "team", "data", "x")) == [
        ("spec.volumes: a claim does not exist yet",)
    ]


def test_pods_that_left_or_got_a_node_are_not_told_anew() -> None:
    """Nothing of them is kept."""
    translator = Translator()
    translator.seen(pod_of("a"))
    translator.seen(pod_of("b"))
    translator.gone(api.Pod, "team", "a", "uid-a")
    translator.seen(pod_of("b", node="n1"))
    assert translator.seen(struct(api.PersistentVolumeClaim, CLAIM)) == []


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
