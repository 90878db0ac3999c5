"""The two KubeSchedulerConfigurations: what they must say, and that they differ in one thing only."""

import pytest
import yaml

from tests.manifests.support.rendering import EXTENDER_CONFIG, named

PINNED, UNPINNED = "kube-scheduler.yaml", "kube-scheduler-without-policy.yaml"


def configuration(file):
    return yaml.safe_load((EXTENDER_CONFIG / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", [PINNED, UNPINNED])
def test_extender(file):
    """One extender, for every pod, whose errors are errors, which knows the nodes by name and binds nothing."""
    (extender,) = configuration(file)["extenders"]

    assert extender == {
        "urlPrefix": "http://127.0.0.1:10270/v1",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 20,
        "httpTimeout": "2s",
        "nodeCacheCapable": True,
        "ignorable": False,
    }


@pytest.mark.parametrize("file", [PINNED, UNPINNED])
def test_our_profile_only(file):
    """The process has our profile and no other: room that we hold is kept by our answers alone."""
    assert configuration(file)["profiles"] == [{"schedulerName": "gangwright"}]


@pytest.mark.parametrize("file", [PINNED, UNPINNED])
def test_lease_is_the_one_that_the_roles_name(file):
    """Leader election uses the Lease that both roles are limited to."""
    election = configuration(file)["leaderElection"]
    (rule,) = named("base", "Role", "gangwright-extender")["rules"]

    assert election["leaderElect"] is True
    assert [election["resourceName"]] == rule["resourceNames"]
    assert (
        election["resourceNamespace"] == named("base", "Role", "gangwright-extender")["metadata"]["namespace"]
    )


def test_the_only_difference():
    """Without the gate policy all nodes are looked at; nothing else changes."""
    pinned, unpinned = configuration(PINNED), configuration(UNPINNED)

    assert "percentageOfNodesToScore" not in pinned
    assert unpinned.pop("percentageOfNodesToScore") == 100
    assert pinned == unpinned
