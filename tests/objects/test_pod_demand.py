"""Where a pod may run, and what of that is not modelled."""

import pytest

from scheduler.model.demand import HostPort, Operator, Requirement, Term, Toleration
from scheduler.model.neighbors import CLUSTER, NO_NEIGHBORS, NODE, Neighbors, PodSelector, PodTerm
from scheduler.objects import api, storage_kinds
from scheduler.objects.interner import Interner
from scheduler.objects.pod_demand import claims_of, wanted
from scheduler.objects.pods import pod
from scheduler.objects.volumes import MISSING, UNBOUND, ClaimKey, Volumes
from tests.objects.reading import pod_with, struct

RACK = Requirement("gangwright.io/rack", Operator.IN, ("r1", "r2"))
NAMED = Requirement("metadata.name", Operator.IN, ("n1",))
AFFINITY = """
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions: [{key: gangwright.io/rack, operator: In, values: [r1, r2]}]
          matchFields: [{key: metadata.name, operator: In, values: [n1]}]
        - matchFields: [{key: metadata.name, operator: In, values: [%s]}]
"""


def volumes_with(affinity: str = "", modes: str = "[ReadWriteOnce]") -> Volumes:
    """A claim `team/data`, bound to the volume `pv`."""
    volumes = Volumes()
    volumes.see_volume(
        struct(storage_kinds.PersistentVolume, f"{{metadata: {{name: pv}}, spec: {{{affinity}}}}}")
    )
    claim = "{metadata: {name: data, namespace: team}, status: {phase: Bound}, spec: {volumeName: pv, accessModes: %s}}"
    volumes.see_claim(struct(storage_kinds.PersistentVolumeClaim, claim % modes))
    return volumes


LOCAL = """nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: gangwright.io/rack, operator: In, values: [r1, r2]}]}]}}"""
CLAIMING = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"


def test_selector_affinity_and_tolerations_are_read() -> None:
    """The selector is sorted, terms keep their parts, tolerations are in a fixed order and without repetition."""
    spec = (
        "nodeSelector: {b: '2', a: '1'}\n"
        + AFFINITY % "n1"
        + """
tolerations:
  - {key: z, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: a, value: b, effect: NoSchedule}
  - {key: a, operator: Equal, value: b, effect: NoSchedule}
  - {key: soft, operator: Exists, effect: PreferNoSchedule}
"""
    )
    demand = wanted(pod_with(spec), Volumes()).demand
    assert demand.selector == (("a", "1"), ("b", "2"))
    assert demand.constraints == ((Term((RACK,), (NAMED,)), Term((), (NAMED,))),)
    assert demand.tolerations == (
        Toleration("a", exists=False, value="b", effect="NoSchedule"),
        Toleration("z", exists=True, effect="NoExecute"),
    )


@pytest.mark.parametrize(("other", "pinned"), [("n1", "n1"), ("n2", None)])
def test_a_pod_is_pinned_when_every_term_names_one_node(other: str, pinned: str | None) -> None:
    """A second term that names another node makes two nodes possible."""
    assert wanted(pod_with(AFFINITY % other), Volumes()).pinned == pinned


def test_a_selector_without_terms_matches_nothing() -> None:
    """It becomes one term without conditions, which no node matches."""
    spec = (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"
    )
    assert wanted(pod_with(spec), Volumes()).affinity == (Term(),)


def test_host_ports_of_containers_and_sidecars_count() -> None:
    """The wildcard address is every address; ports inside the pod and of passing init containers do not count."""
    spec = """
containers: [{ports: [{containerPort: 80}, {hostPort: 8080, hostIP: 0.0.0.0}, {hostPort: 53, protocol: UDP}]}]
initContainers:
  - {restartPolicy: Always, ports: [{hostPort: 9000, hostIP: 10.0.0.1}]}
  - {ports: [{hostPort: 7000}]}
"""
    assert wanted(pod_with(spec), Volumes()).demand.ports == (
        HostPort("TCP", 8080),
        HostPort("TCP", 9000, "10.0.0.1"),
        HostPort("UDP", 53),
    )


GAPS = {
    "spec.tolerations: an operator other than Equal and Exists": "tolerations: [{key: a, operator: Lt, value: '5'}]",
    "spec.volumes: a claim does not exist yet": CLAIMING,
    "spec.volumes: a disk is named directly": "volumes: [{name: d, gcePersistentDisk: {pdName: x}}]",
    "spec.affinity.nodeAffinity: a term without requirements": (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}"
    ),
}


@pytest.mark.parametrize(("gap", "spec"), GAPS.items(), ids=GAPS.keys())
def test_what_is_not_modelled_is_named(gap: str, spec: str) -> None:
    """Each field that decides about nodes unseen is named once, and none of a pod that has its node."""
    assert wanted(pod_with(spec), Volumes()).unmodeled == (gap,)
    assert wanted(pod_with(f"{spec}\nnodeName: n1"), Volumes()).unmodeled == ()


@pytest.mark.parametrize(
    "spec",
    [
        "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}",
        "topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]",
        "volumes: [{name: tmp, emptyDir: {}}, {name: cfg, configMap: {name: c}}]",
    ],
)
def test_what_only_prefers_is_no_gap(spec: str) -> None:
    """Preferences and node-local volumes forbid no node."""
    assert wanted(pod_with(spec), Volumes()).unmodeled == ()


def test_a_bound_volume_constrains_its_pod() -> None:
    """The volume's terms must hold besides the pod's own."""
    found = wanted(pod_with(CLAIMING), volumes_with(LOCAL))
    assert found.demand.constraints == ((Term((RACK,)),),)
    assert found.affinity == ()
    assert found.unmodeled == ()


def test_a_volume_without_affinity_constrains_nothing() -> None:
    """Every node can reach it."""
    found = wanted(pod_with(CLAIMING), volumes_with())
    assert (found.demand.constraints, found.unmodeled) == ((), ())


@pytest.mark.parametrize(
    ("modes", "key", "kind"),
    [("[ReadWriteOncePod]", CLUSTER, "anti_affinity"), ("[ReadWriteOnce]", NODE, "beside")],
)
def test_a_claim_that_pods_share_is_a_rule_about_its_users(modes: str, key: str, kind: str) -> None:
    """One of them in the cluster, or all on one node. Its users have a label that no user can set. Alone, no rule."""
    volumes, claim = volumes_with(modes=modes), ClaimKey("team", "data")
    assert wanted(pod_with(CLAIMING), volumes).neighbors == NO_NEIGHBORS
    volumes.share(claim, shared=True)
    found = wanted(pod_with(CLAIMING), volumes)
    (label,) = found.users
    users = PodSelector(("team",), None, (Requirement(label, Operator.EXISTS),))
    assert found.neighbors == Neighbors(**{kind: (PodTerm(key, users),)})
    assert (found.unmodeled, ":" in label) == ((), True)


def test_an_ephemeral_volume_is_the_claim_named_after_pod_and_volume() -> None:
    """Kubernetes makes the claim `pod-volume` for it."""
    assert claims_of(pod_with("volumes: [{name: v, ephemeral: {}}]", name="p")) == [ClaimKey("team", "p-v")]


def test_a_claim_is_followed_through_its_life() -> None:
    """Missing, unbound, bound to an unseen volume, bound, and missing again."""
    volumes, key = Volumes(), ClaimKey("team", "data")
    claim = "{metadata: {name: data, namespace: team}, spec: {volumeName: %s}, status: {phase: %s}}"
    states = [volumes.needs(key)]
    volumes.see_claim(struct(storage_kinds.PersistentVolumeClaim, claim % ("''", "Pending")))
    states.append(volumes.needs(key))
    volumes.see_claim(struct(storage_kinds.PersistentVolumeClaim, claim % ("pv", "Bound")))
    states.append(volumes.needs(key))
    waiting = volumes.see_volume(struct(storage_kinds.PersistentVolume, "metadata: {name: pv}"))
    states.append(volumes.needs(key))
    volumes.lose_claim(key)
    states.append(volumes.needs(key))
    gaps = [state.gap for state in states]
    assert gaps == [MISSING, UNBOUND, UNBOUND, "", MISSING]
    assert set(waiting.claims) == {key}
    assert set(volumes.lose_volume("pv").claims) == set()


def test_requests_that_cannot_be_read_make_the_pod_unplannable() -> None:
    """The pod counts as one pod of no size, and carries a complaint that refuses it."""
    found = wanted(pod_with("containers: [{resources: {requests: {cpu: lots}}}]"), Volumes())
    assert found.demand.requests == (("pods", 1),)
    assert [complaint.fatal for complaint in found.complaints] == [True]
    assert "lots" in found.complaints[0].value


def test_of_a_bound_pod_only_the_room_counts() -> None:
    """Pods on nodes share their demand however they were pinned there."""
    spec = "nodeName: n1\nnodeSelector: {a: b}\ntolerations: [{operator: Exists}]\n" + AFFINITY % "n1"
    found = wanted(pod_with(spec), Volumes())
    assert found.demand.where == ((), (), ())
    assert (found.affinity, found.pinned) == ((), "n1")


def test_a_bound_pod_of_ours_keeps_what_it_asks_of_nodes() -> None:
    """Whoever is to move it must know; the pin that we gave it is no wish of its owner's."""
    asks = """
      metadata: {uid: u, annotations: {gangwright.io/seat: '{"node":"n1","plan":"p","pin":true}'}}
      spec:
        schedulerName: gangwright
        nodeName: n1
        nodeSelector: {accelerator: h100}
        affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
          {matchExpressions: [{key: zone, operator: In, values: [a]}],
           matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}
    """
    found = wanted(struct(api.Pod, asks), Volumes(), "n1")

    assert found.demand.selector == (("accelerator", "h100"),)
    assert found.demand.constraints == ((Term((Requirement("zone", Operator.IN, ("a",)),)),),)
    assert found.pinned == "n1"


@pytest.mark.parametrize(("pin", "kept"), [("true", 0), ("false", 1)])
def test_a_node_that_the_owner_names_is_not_taken_for_our_pin(pin: str, kept: int) -> None:
    """A seat that was only nominated left the affinity as its owner wrote it: nobody moves such a pod elsewhere."""
    asks = f"""
      metadata: {{uid: u, annotations: {{gangwright.io/seat: '{{"node":"n1","plan":"p","pin":{pin}}}'}}}}
      spec:
        schedulerName: gangwright
        nodeName: n1
        affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [
          {{matchFields: [{{key: metadata.name, operator: In, values: [n1]}}]}}]}}}}}}
    """
    found = pod(struct(api.Pod, asks), Volumes(), (), Interner())

    assert len(found.demand.constraints) == kept
