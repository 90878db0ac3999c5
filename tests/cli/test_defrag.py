"""`gangwright defrag`: moves that would make room are found and proven; with --yes the status service makes them."""

import pytest

from tests.status.support.reviewing import ADMIN, JANE, everybody
from tests.status.support.scene import a_scene
from tests.status.support.scripted import Scripted
from tests.status.support.served import served

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

    said = await scattered.say("defrag", "--offline", "-o", "json")

    assert said.code == 0, said.err
    (move,) = said.json["moves"]
    assert said.json["head"]["seats"] == {"whole-0": move["from"]}
    assert move["to"] != move["from"]
    assert {call.method for call in scattered.calls} == {"GET"}


async def test_the_moves_are_told(scattered):
    """The table tells who moves from where to where, and where the gang would be."""
    scattered.gang("whole", 2, gpus=8)

    out = (await scattered.say("defrag", "--offline")).out

    assert out.count("on-r") == 4, "two moves, gang and pod"
    assert "then team/whole would start on these nodes:" in out


async def test_what_a_pod_asks_of_nodes_counts(scattered):
    """Nobody is moved to a node that he cannot go to: here everybody wants the very node that he is on."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        owned(scattered, f"on-{node}", node, gpus=4, selector={"kubernetes.io/hostname": node})
    scattered.gang("whole", 1, gpus=8)

    said = await scattered.say("defrag", "--offline")

    assert (said.code, "no moves found" in said.out) == (1, True), said


async def test_who_would_lose_work_stays(scattered):
    """Pods that nobody makes again are not moved."""
    for node in ("r0-n0", "r0-n1", "r1-n0", "r1-n1"):
        scattered.pod(f"on-{node}", gang=f"on-{node}", node=node, gpus=4)["metadata"]["ownerReferences"] = []
    scattered.gang("whole", 1, gpus=8)

    assert (await scattered.say("defrag", "--offline")).code == 1


async def test_nobody_waits(scattered):
    """Without a gang that lacks room there is nothing to do."""
    said = await scattered.say("defrag", "--offline")

    assert (said.code, "no gang waits" in said.err) == (0, True)


async def test_scripts_that_still_say_dry_run(scattered):
    """`--dry-run`, which was needed once, changes nothing."""
    assert await scattered.say("defrag", "--offline", "--dry-run") == await scattered.say(
        "defrag", "--offline"
    )


# ── by the status service ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def operator():
    return Scripted()


@pytest.fixture
async def asked(cluster, operator):
    """The command, asking the service behind the API server by a token."""
    world = a_scene()
    async with served(world.engine, everybody(), now=world.now, operator=operator) as service:

        async def ask(*words, token=ADMIN):
            cluster.user, cluster.service = {"token": token}, service.url
            return await cluster.say("defrag", *words)

        yield ask


async def test_without_yes_the_service_moves_nothing(asked, operator):
    """It shows what it would do, and how to have it done."""
    said = await asked()

    assert said.code == 0, said.err
    assert said.out.splitlines()[1].split() == ["team-a", "solo", "solo", "a0-r0-n0", "a1-r0-n0"]
    assert "then team-b/huge would start on these nodes:" in said.out
    assert "gangwright defrag --yes" in said.err
    assert operator.asked == []


async def test_with_yes_the_service_makes_the_moves(asked, operator):
    """Once, in the name of the person whose token it is; a script that also says `--dry-run` moves nothing."""
    dry = await asked("--yes", "--dry-run")
    before = list(operator.asked)
    done = await asked("--yes")

    assert (dry.code, done.code, before) == (0, 0, [])
    assert "the moves have started; these nodes are reserved for team-b/huge:" in done.out
    assert operator.asked == [("defrag", "huge", "admin")]


async def test_moves_without_the_right_to_them(asked, operator):
    """Exit code 2, with the right that is missing."""
    said = await asked("--yes", token=JANE)

    assert (said.code, "list pods in all namespaces" in said.err) == (2, True)
    assert operator.asked == []


async def test_moves_that_do_not_help(asked, operator):
    """Exit code 1, and why."""
    operator.moves = "vain"

    said = await asked("--yes")

    assert (said.code, "no moves found that let team-b/huge start: nothing helps" in said.out) == (
        1,
        True,
    )


async def test_moves_are_not_made_offline(cluster):
    """What is worked out here moves nothing: exit code 2, and what to leave out."""
    said = await cluster.say("defrag", "--yes", "--offline")

    assert (said.code, "Leave out --offline" in said.err) == (2, True)
    assert cluster.calls == []


async def test_the_replica_that_answers_is_told_of(asked, cluster):
    """One that does not see the API server shows what may be the past: one line says so."""
    cluster.standings.append("stale")

    said = await asked()

    assert (said.code, "may be outdated" in said.err) == (0, True)


@pytest.mark.parametrize(("words", "advised"), [((), True), (("--yes",), False)])
async def test_a_service_that_is_missing(cluster, words, advised):
    """What can be worked out here is told for moves that are shown, and not for those that are to be made."""
    said = await cluster.say("defrag", *words)

    assert (said.code, "not installed" in said.err, "--offline" in said.err) == (2, True, advised)
