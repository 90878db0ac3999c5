"""What is watched, and what the installed role allows."""

from pathlib import Path

import yaml

from scheduler.objects.watched_resources import RESOURCES

ROLE = Path(__file__).parents[2] / "manifests" / "base" / "rbac-extender.yaml"


def test_the_role_allows_every_watch() -> None:
    """A kind that we may not list would keep us from ever having read the cluster."""
    role = next(d for d in yaml.safe_load_all(ROLE.read_text()) if d["kind"] == "ClusterRole")
    allowed = {
        (group, kind)
        for rule in role["rules"]
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for kind in rule["resources"]
    }
    for resource in RESOURCES:
        root, *middle, kind = resource.path.strip("/").split("/")
        assert (middle[0] if root == "apis" else "", kind) in allowed


def test_only_what_a_cluster_need_not_have_may_be_missing() -> None:
    """Kinds of custom resource definitions, storage, and an API that older versions of Kubernetes do not have."""
    groups = {r.path.split("/")[2] for r in RESOURCES if r.optional and not r.path.endswith("/podgroups")}
    assert groups == {"storage.k8s.io", "resource.k8s.io"}
    assert sum("resource.k8s.io" in r.path for r in RESOURCES if r.optional) == 5
    assert len({r.path for r in RESOURCES}) == len(RESOURCES)
