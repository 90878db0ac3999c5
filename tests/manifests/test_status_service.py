"""The status API within the cluster: on loopback unless the component is added, over TLS where it is."""

import os
import tempfile

import pytest
import yaml

from scheduler.settings import load
from tests.manifests.support.rendering import (
    EXTENDER_CONFIG,
    MANIFESTS,
    containers,
    documents,
    kubectl,
    named,
    of_kind,
)


@pytest.fixture(scope="module")
def upon_base():
    """The base with the component, as an overlay of a user's own would have it."""
    with tempfile.TemporaryDirectory() as folder:
        parts = {
            "resources": [os.path.relpath(MANIFESTS / "base", folder)],
            "components": [os.path.relpath(MANIFESTS / "components" / "status-service", folder)],
        }
        head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
        with open(f"{folder}/kustomization.yaml", "w", encoding="utf-8") as file:
            yaml.safe_dump(head | parts, file)
        yield list(documents(kubectl("kustomize", folder)))


def one(rendered, kind, name):
    (found,) = [each for each in rendered if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def sidecar(rendered):
    (found,) = one(rendered, "Deployment", "gangwright")["spec"]["template"]["spec"]["initContainers"]
    return found


def test_by_default_the_network_does_not_reach_it():
    """It listens on loopback; no container, Service or network policy opens its port."""
    ours = load(EXTENDER_CONFIG / "settings.yaml", environ={})
    opened = {port["containerPort"] for each in containers().values() for port in each["ports"]}
    served = {port["port"] for each in of_kind("base", "Service") for port in each["spec"]["ports"]}
    (rule,) = named("base", "NetworkPolicy", "gangwright")["spec"]["ingress"]
    admitted = {port["port"] for port in rule["ports"]}

    assert ours.status.host == "127.0.0.1"
    assert ours.status.port not in opened | served | admitted


def test_the_component_opens_its_port_and_no_other(upon_base):
    """Container, Service and network policy name the port of the settings."""
    port = load(EXTENDER_CONFIG / "settings.yaml", environ={}).status.port
    ports = {each["name"]: each["containerPort"] for each in sidecar(upon_base)["ports"]}
    service = one(upon_base, "Service", "gangwright-status")["spec"]
    (rule,) = one(upon_base, "NetworkPolicy", "gangwright-status")["spec"]["ingress"]

    assert ports == {"metrics": 10271, "status": port}
    assert [each["targetPort"] for each in service["ports"]] == ["status"]
    assert [each["port"] for each in rule["ports"]] == [port]


def test_the_component_s_settings_are_whole(upon_base):
    """What it sets by environment is taken: every address, and the certificate that is mounted."""
    container = sidecar(upon_base)
    environ = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    ours = load(EXTENDER_CONFIG / "settings.yaml", environ=environ | {"POD_NAME": "gangwright-0"})
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    assert ours.status.host == ""
    assert ours.status.cert == f"{mounts['status-tls']}/tls.crt"
    assert ours.status.key == f"{mounts['status-tls']}/tls.key"


def test_what_the_base_says_stays(upon_base):
    """The component adds to the sidecar, and takes nothing from it."""
    before, after = containers()["gangwright"], sidecar(upon_base)

    for name in ("image", "args", "resources", "securityContext", "startupProbe", "restartPolicy"):
        assert after[name] == before[name]
    assert {each["name"] for each in before["env"]} < {each["name"] for each in after["env"]}


def test_selectors_find_the_pod(upon_base):
    """Service and network policy select the Pod that the Deployment makes."""
    labels = one(upon_base, "Deployment", "gangwright")["spec"]["template"]["metadata"]["labels"]
    service = one(upon_base, "Service", "gangwright-status")["spec"]["selector"]
    policy = one(upon_base, "NetworkPolicy", "gangwright-status")["spec"]["podSelector"]["matchLabels"]

    assert service.items() <= labels.items()
    assert policy.items() <= labels.items()
