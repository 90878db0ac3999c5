"""`gangwright defrag`: moves that would make room are found, proven, and not made."""

import pytest

OWNER = [{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "r", "uid": "r", "controller": True}]


def owned(cluster, name, node, *, selector=None, **words):
    """A gang of one that is made again at no cost."""
    pod = cluster.pod(name, gang=name, node=node, **words)
    pod["metadata"]["ownerReferences"] = OWNER
    pod["spec"]["nodeSelector"] = selector or {}
    return pod


@pytest.fixture
def scattered(cluster):
    """Every node has four of its eight devices in use, by somebody who could go elsewhere."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        owned(cluster, f"on-{node}", node, gpus=4)
    return cluster


async def test_moves_that_make_room(scattered):
    """A gang that needs a whole node gets it when one of those in its way moves beside another."""
    scattered.gang("whole", 1, gpus=8)

    said = await scattered.say("defrag", "-o", "json")

    assert said.code == 0, said.err
    (move,) = said.json["moves"]
    assert said.json["head"]["seats"] == {"whole-0": move["from"]}
    assert move["to"] != move["from"]
    assert {call.method for call in scattered.calls} == {"GET"}


async def test_the_moves_are_told(scattered):
    """The table tells who moves from where to where, and where the gang would be."""
    scattered.gang("whole", 2, gpus=8)

    out = (await scattered.say("defrag")).out

    assert out.count("on-r") == 4, "two moves, gang and pod"
    assert "then team/whole would have room:" in out


async def test_what_a_pod_asks_of_nodes_counts(scattered):
    """Nobody is moved to a node that he cannot go to: here everybody wants the very node that he is on."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        owned(scattered, f"on-{node}", node, gpus=4, selector={"kubernetes.io/hostname": node})
    scattered.gang("whole", 1, gpus=8)

    said = await scattered.say("defrag")

    assert (said.code, "no moves were found" in said.out) == (1, True), said


async def test_who_would_lose_work_stays(scattered):
    """Pods that nobody makes again are not moved."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        scattered.pod(f"on-{node}", gang=f"on-{node}", node=node, gpus=4)["metadata"]["ownerReferences"] = []
    scattered.gang("whole", 1, gpus=8)

    assert (await scattered.say("defrag")).code == 1


async def test_nobody_waits(scattered):
    """Without a gang that lacks room there is nothing to do."""
    said = await scattered.say("defrag")

    assert (said.code, "no gang waits" in said.err) == (0, True)


async def test_scripts_that_still_say_dry_run(scattered):
    """`--dry-run`, which was needed once, changes nothing."""
    assert await scattered.say("defrag", "--dry-run") == await scattered.say("defrag")
