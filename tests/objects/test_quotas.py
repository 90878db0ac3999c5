"""ResourceQuotas, as far as they decide whether a gang can ever be complete."""

import msgspec
import pytest

from scheduler.objects import api, quotas


def a_quota(hard: dict[str, str], **spec: object) -> api.ResourceQuota:
    document = {"metadata": {"name": "q", "namespace": "team"}, "spec": spec, "status": {"hard": hard}}
    return msgspec.convert(document, api.ResourceQuota)


@pytest.mark.parametrize(
    ("said", "name", "units"),
    [
        ({"pods": "10"}, "pods", 10),
        ({"requests.cpu": "1500m"}, "cpu", 1500),
        ({"cpu": "2"}, "cpu", 2000),
        ({"requests.memory": "1Gi"}, "memory", 2**30),
        ({"requests.nvidia.com/gpu": "4"}, "nvidia.com/gpu", 4),
    ],
)
def test_a_limit_is_read_in_the_units_of_the_planner(said, name, units):
    """Limits on requests, in either spelling, become whole units of their resource."""
    assert dict(quotas.quota(a_quota(said)).hard) == {name: units}


@pytest.mark.parametrize("spec", [{"scopes": ["BestEffort"]}, {"scopeSelector": {}}])
def test_a_scoped_quota_limits_nothing_here(spec):
    """A quota with scopes may not apply to the pods at hand, so nothing is claimed about it."""
    assert quotas.quota(a_quota({"pods": "1"}, **spec)).hard == ()


def test_what_is_in_use_is_read_as_the_limit_is():
    """In the same units; an amount that is no quantity is not known."""
    document = {
        "metadata": {"name": "q", "namespace": "team"},
        "status": {"hard": {"pods": "9"}, "used": {"pods": "3", "requests.cpu": "500m", "memory": "much"}},
    }

    assert dict(quotas.quota(msgspec.convert(document, api.ResourceQuota)).used) == {"pods": 3, "cpu": 500}


def test_what_cannot_be_read_is_left_out():
    """An amount that is no quantity limits nothing, and nothing raises."""
    assert quotas.quota(a_quota({"pods": "many", "limits.cpu": "3", "requests.storage": "1Gi"})).hard == ()
