"""Three files speak of the same ports, names and times: kube-scheduler's, ours, and the Deployment."""

from urllib.parse import urlsplit

import pytest
import yaml

from scheduler.kube.lease_follower import AFTER_FAULT, LOOK_LIMIT, POLL
from scheduler.settings import load
from tests.manifests.support.rendering import EXTENDER_CONFIG, containers, named

FILES = ["kube-scheduler.yaml", "kube-scheduler-without-policy.yaml"]


@pytest.fixture
def ours():
    """The settings as the Pod gets them."""
    return load(EXTENDER_CONFIG / "settings.yaml", environ={"POD_NAME": "gangwright-0"})


@pytest.mark.parametrize("file", FILES)
def test_kube_scheduler_and_extender(ours, file):
    """kube-scheduler asks where we listen, waits as long as we think it does, and elects under the Lease that we
    follow.
    """
    theirs = yaml.safe_load((EXTENDER_CONFIG / file).read_text(encoding="utf-8"))
    (extender,) = theirs["extenders"]
    address = urlsplit(extender["urlPrefix"])

    assert (address.hostname, address.port) == (ours.verbs.host, ours.verbs.port)
    assert extender["httpTimeout"] == f"{ours.verbs.http_timeout:g}s"
    assert [profile["schedulerName"] for profile in theirs["profiles"]] == list(ours.cluster.scheduler_names)
    assert theirs["leaderElection"]["resourceName"] == ours.lease.name
    assert theirs["leaderElection"]["resourceNamespace"] == ours.lease.namespace
    assert ours.lease.follow is True


def test_deployment_and_extender(ours):
    """Probes and metrics are where the Deployment and the Service look for them, on every address of the Pod."""
    (port,) = containers()["gangwright"]["ports"]
    (served,) = named("base", "Service", "gangwright-metrics")["spec"]["ports"]

    assert port["containerPort"] == served["port"] == ours.probes.port
    assert ours.probes.host == ""


def test_kube_scheduler_is_asked_where_it_listens(ours):
    """The extender asks kube-scheduler's own port whether it lives."""
    (port,) = containers()["kube-scheduler"]["ports"]

    assert ours.probes.kube_scheduler == f"https://127.0.0.1:{port['containerPort']}"


@pytest.mark.parametrize("file", FILES)
def test_the_lease_is_renewed_as_often_as_it_is_looked_at(file):
    """A renewal falls between any three looks, one of which may fail before we stop to act. kube-scheduler stops to renew
    before another replica may take over.
    """
    election = yaml.safe_load((EXTENDER_CONFIG / file).read_text(encoding="utf-8"))["leaderElection"]
    duration, deadline, retry = (
        float(election[name].removesuffix("s")) for name in ("leaseDuration", "renewDeadline", "retryPeriod")
    )

    assert retry <= POLL
    assert duration > 3 * POLL + LOOK_LIMIT + AFTER_FAULT
    assert 1.2 * retry < deadline <= duration - 2 * retry


def test_hostname(ours):
    """The Deployment tells us the Pod's name, which is how kube-scheduler's identity in the Lease begins."""
    told = {
        one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in containers()["gangwright"]["env"]
    }

    assert told == {"POD_NAME": "metadata.name"}
    assert ours.lease.hostname == "gangwright-0"


def test_settings_are_where_we_look():
    """The settings file that `serve` is told is mounted."""
    container = containers()["gangwright"]
    (mount,) = container["volumeMounts"]

    assert container["args"] == ["serve", f"--settings={mount['mountPath']}/settings.yaml"]


@pytest.mark.parametrize(
    ("directory", "kind", "policy", "place"),
    [
        ("overlays/default", "MutatingAdmissionPolicy", "gangwright-gate", "matchConditions"),
        ("elastic", "ValidatingAdmissionPolicy", "gangwright-elastic-own-workers", "validations"),
    ],
)
def test_policies_know_our_pods(ours, directory, kind, policy, place):
    """The policies that know our pods by their scheduler go by the name in the settings."""
    (name,) = ours.cluster.scheduler_names
    said = [rule["expression"] for rule in named(directory, kind, policy)["spec"][place]]

    assert any(f"object.spec.?schedulerName.orValue('') == '{name}'" in expression for expression in said)
