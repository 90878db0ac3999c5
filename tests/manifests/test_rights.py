"""Least privilege, as documents: what the roles do not say."""

import pytest
import yaml

from scheduler.objects.watched_resources import RESOURCES
from tests.manifests.support.rendering import named, of_kind, rendered

OURS = [
    ("ClusterRole", "gangwright-extender"),
    ("ClusterRole", "gangwright-view"),
    ("Role", "gangwright-extender"),
    ("Role", "gangwright-scheduler"),
]
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def extender():
    return rights(named("base", "ClusterRole", "gangwright-extender"))


def bindings():
    return [one for one in rendered("base") if one["kind"] in {"RoleBinding", "ClusterRoleBinding"}]


def rights(role):
    """Each (group, resource, verb) that the role grants."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_these_roles():
    """The roles that are judged here are all that we install."""
    installed = {
        (one["kind"], one["metadata"]["name"])
        for one in rendered("base")
        if one["kind"] in {"Role", "ClusterRole"}
    }

    assert installed == set(OURS)


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_no_wildcard(kind, name):
    """No role of ours says `*` anywhere, and none reaches non-resource paths."""
    role = named("base", kind, name)

    assert not [right for right in rights(role) if "*" in right]
    assert not [rule for rule in role["rules"] if rule.get("nonResourceURLs")]


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_forbidden_ground(kind, name):
    """No role of ours touches Secrets, ConfigMaps, tokens or rights, and none speaks for somebody else."""
    forbidden = {"secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "roles", "clusterroles"}
    granted = rights(named("base", kind, name))

    assert not [right for right in granted if right[1] in forbidden]
    assert not [
        right
        for right in granted
        if right[2] in {"impersonate", "bind", "escalate", "delete", "deletecollection"}
    ]


def test_extender_writes():
    """The extender writes plans, nominations, evictions and events, suspends Jobs, asks who people are; nothing
    else.
    """
    writes = {right for right in extender() if right[2] in WRITES}

    assert writes == {
        ("", "pods", "patch"),
        ("", "pods/status", "patch"),
        ("", "pods/eviction", "create"),
        ("batch", "jobs", "patch"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }


def test_extender_reads_what_it_watches():
    """The extender may list and watch exactly the collections of its table, and read nothing in any other way."""
    watched = {_named(row.path) for row in RESOURCES}
    reads = {right for right in extender() if right[2] not in WRITES}

    assert reads == {(*what, verb) for what in watched for verb in ("list", "watch")}


def _named(path):
    """(group, plural) of a collection's path: `/api/v1/pods`, `/apis/batch/v1/jobs`."""
    words = path.strip("/").split("/")
    return ("" if words[0] == "api" else words[1]), words[-1]


def test_extender_reads_every_gang_format():
    """PodGroups of all four systems whose PodGroups state a gang's size can be read, by their exact group names."""
    groups = {right[0] for right in extender() if right[1] == "podgroups"}

    assert groups == {
        "scheduling.x-k8s.io",
        "scheduling.sigs.k8s.io",
        "scheduling.volcano.sh",
        "scheduling.run.ai",
    }


def test_the_role_for_people():
    """It opens a way to our Pod and nothing else, is bound to nobody, and adds nothing to the cluster's own roles."""
    role = named("base", "ClusterRole", "gangwright-view")

    assert rights(role) == {
        ("", "pods", "get"),
        ("", "pods", "list"),
        ("apps", "deployments", "get"),
        ("", "pods/portforward", "get"),
        ("", "pods/portforward", "create"),
    }
    assert not [one for one in bindings() if one["roleRef"]["name"] == "gangwright-view"]
    assert not [label for label in role["metadata"]["labels"] if "aggregate" in label]
    assert "aggregationRule" not in role


def test_leases_by_name():
    """Each role reaches one Lease by its name; only `create`, which cannot be limited so, stands alone, and the
    extender has none.
    """
    for name in ("gangwright-scheduler", "gangwright-extender"):
        for rule in named("base", "Role", name)["rules"]:
            assert rule["resources"] == ["leases"]
            assert rule.get("resourceNames") == ["gangwright"] or rule["verbs"] == ["create"]
    assert not {right[2] for right in rights(named("base", "Role", "gangwright-extender"))} & WRITES


def test_the_stock_roles():
    """kube-scheduler gets the roles that clusters ship for it, under our account, and no role of our own making but
    its Lease.
    """
    refs = {
        (one["roleRef"]["kind"], one["roleRef"]["name"])
        for one in bindings()
        if {subject["name"] for subject in one["subjects"]} == {"gangwright"}
    }

    assert refs == {
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
        ("Role", "gangwright-scheduler"),
    }


def test_the_extender_alone():
    """The account gangwright-extender holds the extender's two roles and no other; the Pod's account holds them too."""
    held = [
        one for one in bindings() if "gangwright-extender" in {subject["name"] for subject in one["subjects"]}
    ]

    assert {one["roleRef"]["name"] for one in held} == {"gangwright-extender"}
    assert {one["roleRef"]["kind"] for one in held} == {"Role", "ClusterRole"}
    assert all("gangwright" in {subject["name"] for subject in one["subjects"]} for one in held)


def test_what_kube_scheduler_writes_of_a_status():
    """The trust policy allows the fields that kube-scheduler 1.35 to 1.37 writes, and no more. The last needs a feature gate
    that is off, so no API server of the tests keeps it.
    """
    policy = named("overlays/default", "ValidatingAdmissionPolicy", "gangwright-we-only-plan")
    (fields,) = (own["expression"] for own in policy["spec"]["variables"] if own["name"] == "statusFields")

    assert yaml.safe_load(fields) == [
        "nominatedNodeName",
        "conditions",
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
    ]


def test_subjects_exist():
    """Every binding names service accounts that the base installs."""
    accounts = {one["metadata"]["name"] for one in of_kind("base", "ServiceAccount")}

    assert {subject["name"] for one in bindings() for subject in one["subjects"]} == accounts
    assert {subject["namespace"] for one in bindings() for subject in one["subjects"]} == {
        "gangwright-system"
    }
