"""What claims require of nodes: where they can be bound, and what they take there."""

import pytest

from scheduler.model.demand import Operator, Requirement, Term
from scheduler.objects import storage_kinds as kinds
from scheduler.objects.affinity import NOWHERE
from scheduler.objects.local_volumes import KINDS
from scheduler.objects.volumes import (
    DELETED,
    NO_CLASS,
    ON_SEVERAL,
    REACHED_BY_SEVERAL,
    SHARED,
    TOO_MANY,
    UNBOUND,
    ClaimKey,
    ClaimNeeds,
    Volumes,
)
from tests.objects.reading import struct

ZONE = "topology.kubernetes.io/zone"
IN_A = (Term((Requirement(ZONE, Operator.IN, ("a",)),)),)
DATA = ClaimKey("team", "data")


def a_class(name: str = "fast", more: str = "", provisioner: str = "csi.example") -> kinds.StorageClass:
    mode = "" if "volumeBindingMode" in more else "volumeBindingMode: WaitForFirstConsumer,"
    text = f"{{metadata: {{name: {name}}}, provisioner: {provisioner}, {mode} {more}}}"
    return struct(kinds.StorageClass, text)


def a_claim(
    name: str = "data",
    klass: str = "fast",
    size: str = "10Gi",
    modes: str = "[ReadWriteOnce]",
    more: str = "",
    meta: str = "",
) -> kinds.PersistentVolumeClaim:
    return struct(
        kinds.PersistentVolumeClaim,
        f"""{{metadata: {{namespace: team, name: {name}, {meta}}}, status: {{phase: Pending}},
        spec: {{storageClassName: {klass}, accessModes: {modes},
        resources: {{requests: {{storage: {size}}}}}, {more}}}}}""",
    )


def a_volume(
    name: str,
    host: str = "",
    size: str = "10Gi",
    klass: str = "local",
    phase: str = "Available",
    more: str = "",
    labels: str = "{}",
) -> kinds.PersistentVolume:
    affinity = (
        f"nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: "
        f"[{{key: kubernetes.io/hostname, operator: In, values: [{host}]}}]}}]}}}},"
        if host
        else ""
    )
    return struct(
        kinds.PersistentVolume,
        f"""{{metadata: {{name: {name}, labels: {labels}}}, status: {{phase: {phase}}},
        spec: {{storageClassName: {klass}, accessModes: [ReadWriteOnce], capacity: {{storage: {size}}},
        {affinity} {more}}}}}""",
    )


def a_capacity(name: str, topology: str, size: str, more: str = "") -> kinds.CSIStorageCapacity:
    return struct(
        kinds.CSIStorageCapacity,
        f"""{{metadata: {{namespace: kube-system, name: {name}}}, storageClassName: fast,
        nodeTopology: {topology}, capacity: {size}, {more}}}""",
    )


DRIVER = struct(kinds.CSIDriver, "{metadata: {name: csi.example}, spec: {storageCapacity: true}}")
ALLOWED = "allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [a]}]}]"
TAKES = ("attachable-volumes-csi-csi.example",)


def known(*objects: object) -> Volumes:
    """Volumes that have seen these."""
    volumes = Volumes()
    for own in objects:
        match own:
            case kinds.StorageClass():
                volumes.see_class(own)
            case kinds.PersistentVolumeClaim():
                volumes.see_claim(own)
            case kinds.PersistentVolume():
                volumes.see_volume(own)
            case kinds.CSIDriver():
                volumes.see_driver(own)
            case kinds.CSIStorageCapacity():
                volumes.see_capacity(own)
    return volumes


def test_a_claim_that_waits_for_its_consumer_is_limited_to_the_topologies_of_its_class() -> None:
    """The claim also takes one attached volume of the provisioner's driver."""
    assert known(a_claim(), a_class(more=ALLOWED)).needs(DATA) == ClaimNeeds((IN_A,), TAKES)
    assert known(a_claim(), a_class()).needs(DATA) == ClaimNeeds((), TAKES)


def test_an_empty_term_of_a_class_matches_nothing() -> None:
    """A class whose only term is empty can create volumes nowhere."""
    empty = a_class(more="allowedTopologies: [{}]")
    assert known(a_claim(), empty).needs(DATA).nodes == ((Term(),),)


@pytest.mark.parametrize(
    ("objects", "gap"),
    [
        ([], NO_CLASS),
        ([a_class(more="volumeBindingMode: Immediate")], UNBOUND),
        ([a_class(), a_claim(modes="[ReadWriteMany]")], ON_SEVERAL),
        ([a_class(), a_claim(meta="deletionTimestamp: '2026-01-01T00:00:00Z'")], DELETED),
        ([a_class(), a_claim(more="volumeName: pv")], UNBOUND),
    ],
)
def test_what_is_not_modeled_is_named(objects: list[object], gap: str) -> None:
    """Each gap names the reason why the nodes of the claim are unknown."""
    assert known(a_claim(), *objects).needs(DATA).gap == gap


def test_a_driver_that_reports_capacity_limits_a_claim_to_the_nodes_with_enough() -> None:
    """The maximum size of a volume counts instead of the capacity. Single values of one label are one requirement."""
    volumes = known(
        a_class(),
        DRIVER,
        a_claim(),
        a_capacity("a", f"{{matchLabels: {{{ZONE}: a}}}}", "10Gi"),
        a_capacity("b", f"{{matchLabels: {{{ZONE}: b}}}}", "1Ti"),
        a_capacity("c", f"{{matchLabels: {{{ZONE}: c}}}}", "9Gi"),
        a_capacity("d", f"{{matchLabels: {{{ZONE}: d}}}}", "1Ti", "maximumVolumeSize: 1Gi"),
        a_capacity("e", "null", "1Ti"),
        a_capacity("f", f"{{matchLabels: {{{ZONE}: f}}}}", "much"),
    )
    assert volumes.needs(DATA).nodes == ((Term((Requirement(ZONE, Operator.IN, ("a", "b")),)),),)
    volumes.lose_driver("csi.example")
    assert volumes.needs(DATA).nodes == ()


def test_without_a_capacity_a_claim_fits_nowhere_and_with_one_for_all_nodes_everywhere() -> None:
    """An empty selector matches every node."""
    volumes = known(a_class(), DRIVER, a_claim())
    assert volumes.needs(DATA).nodes == (NOWHERE,)
    assert set(volumes.see_capacity(a_capacity("all", "{}", "1Ti")).claims) == {DATA}
    assert volumes.needs(DATA).nodes == ()


def test_a_capacity_touches_claims_only_if_it_crosses_their_size() -> None:
    """Drivers report often, and most reports change no answer."""
    volumes = known(a_class(), DRIVER, a_claim(), a_capacity("all", "{}", "1Ti"))
    volumes.needs(DATA)
    assert set(volumes.see_capacity(a_capacity("all", "{}", "11Gi")).claims) == set()
    assert set(volumes.see_capacity(a_capacity("all", "{}", "9Gi")).claims) == {DATA}
    assert volumes.needs(DATA).nodes == (NOWHERE,)


def test_a_claim_with_a_selected_node_belongs_there() -> None:
    """The capacity that it takes may be reported as used before the claim is bound."""
    chosen = a_claim(meta="annotations: {volume.kubernetes.io/selected-node: n7}")
    named = (Term(fields=(Requirement("metadata.name", Operator.IN, ("n7",)),)),)
    assert known(a_class(), DRIVER, chosen).needs(DATA).nodes == (named,)


def test_local_volumes_are_counted_by_node_and_size() -> None:
    """A large claim also takes one of the volumes that fit the small claim."""
    volumes = known(
        a_class("local", provisioner="kubernetes.io/no-provisioner"),
        a_claim("data", "local", "10Gi"),
        a_claim("big", "local", "100Gi"),
        a_volume("p1", "n1", "10Gi"),
        a_volume("p2", "n1", "200Gi"),
        a_volume("p3", "n2", "5Gi"),
        a_volume("p4", "n2", "1Ti", phase="Released"),
        a_volume("p5", "n2", "1Ti", klass="other"),
        a_volume("p6", "n2", "much"),
    )
    (small,), large = volumes.needs(DATA).takes, volumes.needs(ClaimKey("team", "big")).takes
    assert len(large) == 2
    assert small in large
    (other,) = set(large) - {small}
    assert volumes.columns("n1", "n1") == {small: 2, other: 1}
    assert volumes.columns("n2", "n2") == {}
    assert "/" not in small + other


def test_a_local_volume_that_names_its_claim_is_the_only_one() -> None:
    """kube-scheduler reserves a volume for its claim before both are bound. It counts for no other claim then."""
    klass = a_class("local", provisioner="kubernetes.io/no-provisioner")
    volumes = known(klass, a_claim("data", "local"), a_volume("p1", "n1"))
    (name,) = volumes.needs(DATA).takes
    assert volumes.columns("n1", "n1") == {name: 1}
    touched = volumes.see_volume(a_volume("p1", "n1", more="claimRef: {namespace: team, name: data}"))
    assert (set(touched.claims), set(touched.hosts)) == ({DATA}, {"n1"})
    assert volumes.columns("n1", "n1") == {}
    host = (Term((Requirement("kubernetes.io/hostname", Operator.IN, ("n1",)),)),)
    assert volumes.needs(DATA) == ClaimNeeds((host,))


def test_a_released_volume_is_for_no_claim() -> None:
    """It still names its last claim, whose name the claim of a recreated pod has again."""
    klass = a_class("local", provisioner="kubernetes.io/no-provisioner")
    left = a_volume("p1", "n1", phase="Released", more="claimRef: {namespace: team, name: data}")
    (name,) = known(klass, a_claim("data", "local"), left).needs(DATA).takes
    assert name.startswith("local-volumes-")


def test_selectors_and_modes_decide_which_local_volumes_fit() -> None:
    """A volume needs every access mode of the claim, and its labels."""
    klass = a_class("local", provisioner="kubernetes.io/no-provisioner")
    nvme = a_claim("data", "local", more="selector: {matchLabels: {disk/kind: nvme}}")
    block = a_claim("raw", "local", more="volumeMode: Block")
    volumes = known(
        klass, nvme, block, a_volume("p1", "n1"), a_volume("p2", "n1", labels="{disk/kind: nvme}")
    )
    (name,) = volumes.needs(DATA).takes
    assert volumes.columns("n1", "n1") == {name: 1}


def test_a_volume_that_several_nodes_reach_is_not_modeled() -> None:
    """Which node uses it is unknown, so it can't be counted on any."""
    klass = a_class("local", provisioner="kubernetes.io/no-provisioner")
    volumes = known(klass, a_claim("data", "local"), a_volume("p1", "n1"))
    assert volumes.needs(DATA).gap == ""
    assert set(volumes.see_volume(a_volume("nfs")).claims) == {DATA}
    assert volumes.needs(DATA).gap == REACHED_BY_SEVERAL
    volumes.lose_volume("nfs")
    assert volumes.needs(DATA).gap == ""


def test_the_oldest_kinds_of_claims_are_counted() -> None:
    """Kinds beyond the limit are named, and the next one is counted when an older one has gone."""
    volumes = known(a_class("local", provisioner="kubernetes.io/no-provisioner"), a_volume("p", "n1", "1Ti"))
    keys = [ClaimKey("team", f"c{number}") for number in range(KINDS + 1)]
    for number, key in enumerate(keys):
        volumes.see_claim(a_claim(key.name, "local", f"{number + 1}Gi"))
    assert volumes.needs(keys[-1]).gap == TOO_MANY
    assert len(volumes.columns("n1", "n1")) == KINDS
    assert keys[-1] in volumes.lose_claim(keys[0]).claims
    assert volumes.needs(keys[-1]).gap == ""


def test_an_unbound_claim_of_several_pods_is_modeled_where_it_is_created() -> None:
    """Its pods go to one node. Of local volumes each pod would count one, so that is not modeled."""
    for klass, gap in ((a_class(), ""), (a_class(provisioner="''"), SHARED)):
        volumes = known(klass, a_claim())
        assert volumes.share(DATA, shared=True)
        assert not volumes.share(DATA, shared=True)
        assert volumes.needs(DATA).gap == gap


@pytest.mark.parametrize(
    ("modes", "pod", "node"),
    [
        ("[ReadWriteOnce]", False, True),
        ("[ReadWriteOncePod]", True, False),
        ("[ReadWriteOnce, ReadWriteMany]", False, False),
    ],
)
def test_access_modes_limit_who_shares_a_claim(modes: str, *, pod: bool, node: bool) -> None:
    """To one pod, to the pods of one node, or not at all."""
    volumes = known(a_claim(modes=modes))
    assert (volumes.for_one_pod(DATA), volumes.for_one_node(DATA)) == (pod, node)


def test_the_driver_of_a_bound_volume_counts() -> None:
    """Also for a volume of an in-tree plugin, which its CSI driver attaches."""
    bound = struct(
        kinds.PersistentVolumeClaim,
        "{metadata: {namespace: team, name: data}, spec: {volumeName: pv}, status: {phase: Bound}}",
    )
    assert known(bound, a_volume("pv", more="csi: {driver: other.example}")).needs(DATA).takes == (
        "attachable-volumes-csi-other.example",
    )
    assert known(bound, a_volume("pv", more="awsElasticBlockStore: {}")).needs(DATA).takes == (
        "attachable-volumes-csi-ebs.csi.aws.com",
    )
    assert known(bound, a_volume("pv")).needs(DATA).takes == ()


def test_zone_labels_of_a_bound_volume_limit_its_nodes() -> None:
    """A node without any zone label may use it too."""
    bound = struct(
        kinds.PersistentVolumeClaim,
        "{metadata: {namespace: team, name: data}, spec: {volumeName: pv}, status: {phase: Bound}}",
    )
    ((zones, without),) = known(bound, a_volume("pv", labels=f"{{{ZONE}: a__b}}")).needs(DATA).nodes
    assert zones == Term((Requirement(ZONE, Operator.IN, ("a", "b")),))
    assert {own.operator for own in without.labels} == {Operator.DOES_NOT_EXIST}


def test_limits_of_nodes_are_read() -> None:
    """A missing or negative count is no limit, and an equal report touches nothing."""
    node = struct(
        kinds.CSINode,
        """{metadata: {name: n1}, spec: {drivers: [{name: a, allocatable: {count: 2}}, {name: b},
        {name: c, allocatable: {count: -1}}, {name: d, allocatable: {count: 0}}]}}""",
    )
    volumes = Volumes()
    assert set(volumes.see_limits(node).nodes) == {"n1"}
    assert volumes.columns("n1", "") == {"attachable-volumes-csi-a": 2, "attachable-volumes-csi-d": 0}
    assert set(volumes.see_limits(node).nodes) == set()
    assert set(volumes.lose_limits("n1").nodes) == {"n1"}
    assert volumes.columns("n1", "") == {}


def test_claims_of_classes_with_a_provisioner_are_no_kinds() -> None:
    """They do not use up the kinds that are counted, whichever object comes first."""
    volumes = known(a_volume("p", "n1", "1Ti"))
    for number in range(KINDS):
        volumes.see_claim(a_claim(f"c{number}", "fast", f"{number + 1}Gi"))
    volumes.see_claim(a_claim("data", "local"))
    volumes.see_class(a_class())
    touched = volumes.see_class(a_class("local", provisioner="kubernetes.io/no-provisioner"))
    assert (set(touched.claims), set(touched.hosts)) == ({DATA}, {"n1"})
    (name,) = volumes.needs(DATA).takes
    assert volumes.columns("n1", "n1") == {name: 1}
    assert set(volumes.lose_class("local").hosts) == {"n1"}
    assert volumes.columns("n1", "n1") == {}
