"""`gangwright shares`: what each namespace uses, and may."""

import pytest

from tests.cli.support.speaking import GPU

SHARES = """
queue:
  shares:
    research: {guaranteed: {nvidia.com/gpu: 4, cpu: 8}, ceiling: {nvidia.com/gpu: 16}}
    idle: {ceiling: {nvidia.com/gpu: 2}}
"""


@pytest.fixture
def busy(cluster):
    """A cluster with shares: research borrows and waits, and others use devices without a share."""
    cluster.settings(SHARES)
    cluster.gang("runs", 1, namespace="research", gpus=6, node="r0-n0")
    cluster.gang("waits", 3, namespace="research", gpus=8)
    cluster.gang("own", 1, namespace="others", gpus=1, node="r0-n1")
    return cluster


async def test_a_line_a_namespace_and_resource(busy):
    """Devices, and what the settings name; a dash for nothing."""
    said = await busy.say_offline("shares")

    assert said.code == 0, said.err
    assert [tuple(own.values()) for own in said.rows] == [
        ("idle", GPU, "0", "-", "-", "2", "-"),
        ("others", GPU, "1", "-", "1", "-", "-"),
        ("others", "cpu", "1", "-", "1", "-", "-"),
        ("research", GPU, "6", "4", "2", "16", "24"),
        ("research", "cpu", "1", "8", "-", "-", "3"),
    ]


async def test_every_resource(busy):
    """`-o wide` shows what nothing is said of, too; JSON has the shapes of the status API."""
    wide = await busy.say_offline("shares", "-o", "wide")
    rows = (await busy.say_offline("shares", "-o", "json")).json["shares"]

    assert {own["RESOURCE"] for own in wide.rows} == {GPU, "cpu", "pods"}
    assert [row["namespace"] for row in rows] == ["idle", "others", "research"]
    assert rows[2]["resources"]["cpu"] == {
        "used": 1000, "guaranteed": 8000, "borrowed": 0, "ceiling": None, "waiting": 3000,
    }  # fmt: skip


async def test_without_shares(cluster):
    """That the settings say nothing is said."""
    said = await cluster.say_offline("shares")

    assert (said.code, said.rows) == (0, [])
    assert "queue.shares sets no guarantee and no ceiling" in said.err
