"""Gangwright writes under its own accounts, and what was applied can be applied again. That no story's request was
forbidden is looked at when all are over (`installed`).
"""

import pytest

from bench.plane import Fleet, nodes, watches, where
from bench.plane.installation import EXTENDER, GANGWRIGHT, OVERLAY, Installation
from tests.stories.support.cluster import bound
from tests.stories.support.workloads import gang

NAMESPACE = "default"


@pytest.mark.parametrize("account", [EXTENDER, GANGWRIGHT], ids=["extender", "kube-scheduler"])
async def test_writes_are_our_own(gangwright: Installation, account):
    """In the audit log the writes that place a gang are those of our accounts."""
    began = gangwright.plane.audit.mark()
    await one_gang(gangwright)

    assert (
        gangwright.plane.audit.used(account.user, since=began)
        >= {EXTENDER: {("patch", "pods")}, GANGWRIGHT: {("create", "pods/binding")}}[account]
    )


def test_applied_again(gangwright: Installation):
    """What an administrator applied, he can apply again."""
    said = gangwright.plane.kubectl("apply", "--server-side", "--dry-run=server", "-k", OVERLAY)

    assert "deployment.apps/gangwright serverside-applied" in said


async def one_gang(installed: Installation) -> None:
    async with installed.plane.client() as api:
        await nodes.create(api, Fleet(racks=1, nodes_per_rack=1, gpus=4))
        for member in gang("last", 4):
            await api.create(where("pods", NAMESPACE), member)
        await watches.until(api, where("pods", NAMESPACE), lambda pods: len(bound(pods)) == 4)
        await api.delete_all(where("pods", NAMESPACE), grace=0)
        await nodes.delete_all(api)
