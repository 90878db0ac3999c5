"""Everything in manifests/ can be handed to a cluster as it is."""

import os
import re

import pytest
import yaml

from tests.manifests.support.rendering import (
    EXTENDER_CONFIG,
    MANIFESTS,
    containers,
    documents,
    kubectl,
    named,
    of_kind,
    pod_spec,
    rendered,
)

DIRECTORIES = [
    str(place.parent.relative_to(MANIFESTS)) for place in sorted(MANIFESTS.rglob("kustomization.yaml"))
]
PATCHES = {"components/without-gate-policy", "components/status-service"}
"""Components that patch the base, and so render upon it alone."""
RENDERED_ALONE = [name for name in DIRECTORIES if name not in PATCHES]
NAMESPACE = "gangwright-system"
CLUSTER_SCOPED = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "PriorityClass",
    "APIService",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


@pytest.mark.parametrize("directory", RENDERED_ALONE)
def test_renders(directory):
    """Each kustomization renders under the default load restrictions, and every document has kind and name."""
    assert all(document["kind"] and document["metadata"]["name"] for document in rendered(directory))


@pytest.mark.parametrize("directory", RENDERED_ALONE)
def test_namespace(directory):
    """Whatever has a namespace lives in ours, except for the two bindings that Kubernetes wants in kube-system."""
    homes = {
        (document["kind"], document["metadata"]["name"]): document["metadata"].get("namespace")
        for document in rendered(directory)
        if document["kind"] not in CLUSTER_SCOPED
    }
    elsewhere = {name for name, home in homes.items() if home != NAMESPACE}

    readers = ("gangwright-scheduler-authentication-reader", "gangwright-api-authentication-reader")
    assert elsewhere <= {("RoleBinding", name) for name in readers}


@pytest.mark.parametrize("component", ["prometheus-operator", "status-service"])
def test_a_component_leaves_labels_of_others_alone(tmp_path, component):
    """Named in an overlay over both programs it says whose its own objects are, and of the rest nothing."""
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "overlays" / "with-elastic", tmp_path)],
        "components": [os.path.relpath(MANIFESTS / "components" / component, tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")

    def labelled(found):
        return {(one["kind"], one["metadata"]["name"]): one["metadata"].get("labels") for one in found}

    before = labelled(rendered("overlays/with-elastic"))
    after = labelled(documents(kubectl("kustomize", tmp_path)))
    ours = {"app.kubernetes.io/name": "gangwright", "app.kubernetes.io/part-of": "gangwright"}

    assert {key: after[key] for key in before} == before
    assert [after[key] for key in after.keys() - before.keys()] == [ours, ours]


def test_workers_follow_the_image(tmp_path):
    """The lines that elastic/kustomization.yaml has for an overlay of one's own give workers the image of `images`."""
    head = (MANIFESTS / "elastic" / "kustomization.yaml").read_text(encoding="utf-8")
    lines = re.search(r"^# replacements:\n(?:#   .*\n)+", head, re.MULTILINE)[0]
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "overlays" / "with-elastic", tmp_path)],
        "images": [{"name": "gangwright", "newName": "registry.example/gangwright", "newTag": "1"}],
        **yaml.safe_load(re.sub(r"^# ?", "", lines, flags=re.MULTILINE)),
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")

    (master,) = [
        each["spec"]["template"]["spec"]["containers"][0]
        for each in documents(kubectl("kustomize", tmp_path))
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "gangwright-elastic")
    ]
    told = {one["name"]: one.get("value") for one in master["env"]}
    assert told["GANGWRIGHT_WORKERS__IMAGE"] == master["image"] == "registry.example/gangwright:1"


def test_no_secret():
    """A Secret that we install is empty."""
    secrets = [one for name in RENDERED_ALONE for one in rendered(name) if one["kind"] == "Secret"]
    assert not [one for one in secrets if one.keys() & {"data", "stringData"}]


def test_configuration_reaches_the_containers():
    """Both programs read the very files of extender_config/, through ConfigMaps named by their content."""
    volumes = {one["name"]: one["configMap"]["name"] for one in pod_spec()["volumes"]}
    settings = named("base", "ConfigMap", volumes["settings"])["data"]
    scheduler = named("base", "ConfigMap", volumes["kube-scheduler"])["data"]

    assert settings["settings.yaml"] == (EXTENDER_CONFIG / "settings.yaml").read_text(encoding="utf-8")
    assert all(
        text == (EXTENDER_CONFIG / name).read_text(encoding="utf-8") for name, text in scheduler.items()
    )
    assert volumes["settings"] != "gangwright-settings", "the hash of the content is missing"


@pytest.mark.parametrize(
    ("overlay", "file"),
    [
        ("overlays/default", "kube-scheduler.yaml"),
        ("overlays/without-gate-policy", "kube-scheduler-without-policy.yaml"),
    ],
)
def test_each_overlay_takes_its_configuration(overlay, file):
    """kube-scheduler is started with the configuration that fits whether pods come gated, and the file is mounted."""
    scheduler = containers(overlay)["kube-scheduler"]
    (mount,) = scheduler["volumeMounts"]

    assert scheduler["args"] == [f"--config={mount['mountPath']}/{file}"]
    assert any(file in one["data"] for one in of_kind(overlay, "ConfigMap"))


def test_gate_policy_only_where_the_api_has_it():
    """The overlay for clusters before 1.36 names no kind that they lack; the default one has gate and trust
    policies.
    """
    default = {one["kind"] for one in rendered("overlays/default")}
    older = {one["kind"] for one in rendered("overlays/without-gate-policy")}

    assert {"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"} <= default
    assert "ValidatingAdmissionPolicy" in older
    assert "MutatingAdmissionPolicy" not in older


@pytest.mark.parametrize("directory", RENDERED_ALONE)
def test_policies_are_bound(directory):
    """A policy without a binding does nothing: each has one of the same name, and a validating one denies."""
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        bound = {one["spec"]["policyName"] for one in of_kind(directory, f"{kind}Binding")}
        assert bound == {one["metadata"]["name"] for one in of_kind(directory, kind)}
    for binding in of_kind(directory, "ValidatingAdmissionPolicyBinding"):
        assert binding["spec"]["validationActions"] == ["Deny"]


def test_policies_know_our_accounts():
    """The trust policies name exactly the service accounts that we install, by the names the API server gives them."""
    accounts = {
        f"system:serviceaccount:{NAMESPACE}:{one['metadata']['name']}"
        for one in of_kind("base", "ServiceAccount")
    }
    for policy in of_kind("components/trust-policy", "ValidatingAdmissionPolicy"):
        (condition,) = policy["spec"]["matchConditions"]
        assert set(condition["expression"].split("'")[1::2]) == accounts


def test_yaml_has_no_duplicate_keys():
    """No file under manifests/ or extender_config/ says one key twice (YAML readers would drop one in silence)."""
    for place in (*MANIFESTS.rglob("*.yaml"), *EXTENDER_CONFIG.glob("*.yaml")):
        for tree in yaml.compose_all(place.read_text(encoding="utf-8"), Loader=yaml.SafeLoader):
            assert not list(_repeated(tree)), place


def _repeated(node):
    if isinstance(node, yaml.MappingNode):
        names = [key.value for key, _ in node.value]
        yield from (name for name in names if names.count(name) > 1)
        for _, value in node.value:
            yield from _repeated(value)
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _repeated(value)
