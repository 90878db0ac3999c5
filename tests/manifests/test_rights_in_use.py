"""The extender at work under its own role: nothing is missing there, and nothing is there that nobody uses."""

import asyncio

import pytest

from bench.plane import Fleet, Plane, nodes, where
from bench.plane.installation import EXTENDER, GANGWRIGHT, Installation
from tests.manifests.conftest import CRDS
from tests.manifests.support.rendering import MANIFESTS, named

pytestmark = pytest.mark.plane

LOOKS = {("get", "leases.coordination.k8s.io")}


@pytest.fixture(scope="module")
def audit():
    """What the API server wrote down while a gang waited, was planned, pinned and bound."""
    with Plane(controllers=True, audit=True) as plane:
        plane.kubectl("apply", "--server-side", "-f", CRDS)
        with Installation(plane, lease=True):
            asyncio.run(_one_gang(plane))
        yield plane.audit


async def _one_gang(plane):
    """A gang that first waits for room, which is told to people, and then runs."""
    async with plane.client() as admin:
        await admin.until(where("serviceaccounts", "default", "default"), bool)
        plane.kubectl("apply", "--server-side", "-f", MANIFESTS / "samples" / "pack.yaml")
        await admin.until(where("pods", "default"), _somebody_was_told, within=60)
        await nodes.create(admin, Fleet(racks=2, nodes_per_rack=2))
        ready = where("jobs", "default", "pack")
        await admin.until(ready, lambda seen: seen.get("status", {}).get("ready") == 4, within=60)


def _somebody_was_told(pods):
    return any(
        condition["type"] == "gangwright.io/Seated"
        for pod in pods["items"]
        for condition in pod["status"].get("conditions", [])
    )


def granted(verbs):
    """(verb, resource) pairs of the extender's ClusterRole, as the audit log writes resources."""
    pairs = set()
    for rule in named("base", "ClusterRole", "gangwright-extender")["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                plural, slash, part = resource.partition("/")
                word = ".".join(filter(None, (plural, group))) + slash + part
                pairs |= {(verb, word) for verb in rule["verbs"] if verb in verbs}
    return pairs


def test_nothing_is_refused(audit):
    """Neither program was refused anything, under accounts that have their own rights and no more."""
    assert audit.refused(EXTENDER.user) == []
    assert audit.refused(GANGWRIGHT.user) == []


def test_every_reading_right_is_used(audit):
    """The extender watches exactly what its role lets it watch, and looks at one Lease."""
    used = {(verb, what) for verb, what in audit.used(EXTENDER.user) if verb in {"get", "list", "watch"}}

    assert {pair for pair in used if pair[0] != "get"} == granted({"list", "watch"})
    assert {pair for pair in used if pair[0] == "get"} <= LOOKS | granted({"get"})
    assert used >= LOOKS


def test_writes(audit):
    """Placing a gang takes a patch of its pods, of their status, and an event, and all of it is in the role."""
    writes = {
        (verb, what) for verb, what in audit.used(EXTENDER.user) if verb not in {"get", "list", "watch"}
    }

    assert writes <= granted({"patch", "create"})
    assert writes >= {("patch", "pods"), ("patch", "pods/status"), ("patch", "events.events.k8s.io")}
