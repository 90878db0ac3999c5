"""The desk at which people are served: dry runs on the engine that decides, and Jobs suspended through the API
server.
"""

import json
from dataclasses import replace

import pytest

from scheduler.kube.client import Client
from scheduler.kube.credentials import find_access
from scheduler.model.decision import Reason
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Share
from scheduler.model.workload import GangKey, Pod, Uid
from scheduler.service.operator_actions import OperatorActions
from scheduler.status.operator_api import DeskError, Drained
from tests.builders import GPU
from tests.engine.cast import a_gang_of_pods, an_owner
from tests.engine.situations import thought_of
from tests.engine.stage import a_world
from tests.engine.world import World
from tests.kube.api_server import ApiServer, Refuse
from tests.kube.kubeconfig import kubeconfig

JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(api, tmp_path):
    async with Client(await find_access(kubeconfig(tmp_path, api.url))) as made:
        yield made


async def drains(node: str, by: str) -> Drained:
    """What stands for the drain; its own tests are elsewhere."""
    return Drained(done=(node, by) == ("n0", "jane"))


def a_desk(world: World, client: Client) -> OperatorActions:
    return OperatorActions(world.engine, client, lambda: world.now, drains)


def thinks_of(world: World, count: int, **words) -> list[Pod]:
    return thought_of(a_gang_of_pods("thought", count, **words), world.now)


@pytest.fixture
def full() -> World:
    """Two nodes of four devices; a gang of priority 0 fills one, and runs for a minute."""
    world = a_world(4, 4)
    world.submit(a_gang_of_pods("runs", 4, gpu=1, wish={"runtime": 60.0}))
    world.settle(5.0)
    return world


# ── dry runs ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_gang_that_fits_is_given_its_seats(full, client):
    """It would start at once: everybody's node is told, and nobody would leave."""
    pods = thinks_of(full, 4, gpu=1)

    said = await a_desk(full, client).simulate(pods)

    assert (said.reason, said.victims) == (Reason.SEATED, ())
    assert said.seats.keys() == {pod.uid for pod in pods}
    assert {pod.node for pod in full.bound("runs")}.isdisjoint(said.seats.values())


async def test_a_gang_without_room_is_told_when_it_will_have_some(full, client):
    """The figures of what it lacks, and the time from which room would be kept for it."""
    said = await a_desk(full, client).simulate(thinks_of(full, 8, gpu=1))

    assert (said.reason, dict(said.seats)) == (Reason.NO_ROOM, {})
    assert (said.shortfall.needed, said.shortfall.best) == (8, 4)
    assert str(said.shortfall) in said.message
    assert said.start.middle == full.record("runs").observed.since + 60.0


async def test_a_gang_that_matters_more_is_told_whom_it_costs(full, client):
    """The seats are its own once those have left who are named."""
    said = await a_desk(full, client).simulate(thinks_of(full, 8, gpu=1, priority=10))

    assert said.reason is Reason.MAKING_ROOM
    assert len(said.seats) == 8
    assert [unit.gang.name for unit in said.victims] == ["runs"]
    assert said.message == "gang would preempt 4 pods, and start when all of them have left"


ANTI = "spec.affinity.podAntiAffinity"


@pytest.mark.parametrize(("count", "priority"), [(4, 0), (8, 10)], ids=["room", "room made"])
async def test_what_is_not_modelled_is_no_yes(full, client, count, priority):
    """There is room by what the planner models: what it does not model decides, so it cannot be told, and by which
    field. No seat is named, and no victim.
    """
    pods = [replace(pod, unmodelled=(ANTI,)) for pod in thinks_of(full, count, gpu=1, priority=priority)]

    said = await a_desk(full, client).simulate(pods)

    assert (said.reason, said.seats, said.victims) == (Reason.UNMODELLED, {}, ())
    assert said.message.startswith(f"cannot tell: {ANTI}: ")


async def test_what_is_not_modelled_changes_no_no(full, client):
    """A gang without room waits, whatever else its pods ask for."""
    pods = [replace(pod, unmodelled=(ANTI,)) for pod in thinks_of(full, 8, gpu=1)]

    assert (await a_desk(full, client).simulate(pods)).reason is Reason.NO_ROOM


async def test_more_of_a_gang_that_has_its_quorum(client):
    """Pods beyond the quorum of a gang that runs, for which there is no room, are told that, and not that they start."""
    world = a_world(4)
    gang = a_gang_of_pods("runs", 4, gpu=1)
    world.submit(gang)
    world.settle(5.0)
    more = [replace(pod, uid=Uid(f"more-{pod.uid}")) for pod in gang]

    said = await a_desk(world, client).simulate(thought_of(more, world.now))

    assert (said.reason, said.seats) == (Reason.NO_ROOM, {})
    assert "has its quorum" in said.message


async def test_a_gang_over_its_ceiling_is_told_the_ceiling(client):
    """The namespace's ceiling is named with its figures, whatever room there is."""
    world = a_world(8, policy=Policy(shares={"default": Share(ceiling=((GPU, 2),))}))

    said = await a_desk(world, client).simulate(thinks_of(world, 3, gpu=1))

    assert said.reason is Reason.OVER_CEILING
    assert "3" in said.message
    assert "2" in said.message


async def test_a_gang_that_contradicts_itself_is_told_what_to_mend(full, client):
    """Field, value and remedy are in the answer."""
    pods = [*thinks_of(full, 1), *a_gang_of_pods("other", 1)]

    said = await a_desk(full, client).simulate(pods)

    assert (said.reason, said.seats) == (Reason.CONFLICT, {})
    assert "one gang" in said.message


async def test_without_reservations_no_time_is_told(client):
    """Where nobody's room is kept in time, a gang that waits is not told when it will start."""
    world = a_world(4, policy=Policy(backfill=Backfill.FREE))
    world.submit(a_gang_of_pods("runs", 4, gpu=1, wish={"runtime": 60.0}))
    world.settle(5.0)

    said = await a_desk(world, client).simulate(thinks_of(world, 2, gpu=1))

    assert (said.reason, said.start) == (Reason.NO_ROOM, None)


async def test_a_dry_run_leaves_no_trace(full, client):
    """Nothing is held, nobody waits, and nothing was written."""
    before = (full.engine.ledger.holds(), len(full.engine.ledger.pending), len(full.said))

    await a_desk(full, client).simulate(thinks_of(full, 8, gpu=1, priority=10))

    assert (full.engine.ledger.holds(), len(full.engine.ledger.pending), len(full.said)) == before


# ── what was worked out anyway ──────────────────────────────────────────────────────────────────────────


async def test_who_is_asked_to_leave_is_known(full, client):
    """While room is made for a gang its victims are named; for any other gang there are none."""
    full.api.grace = lambda _pod: 60.0
    full.submit(a_gang_of_pods("urgent", 8, gpu=1, priority=10))
    full.settle(2.0)
    desk = a_desk(full, client)

    assert [unit.gang.name for unit in desk.victims(GangKey("default", "urgent"))] == ["runs"]
    assert desk.victims(GangKey("default", "runs")) == ()
    assert desk.victims(GangKey("default", "nobody")) == ()


async def test_a_drain_is_passed_on(full, client):
    """With the node, and who asked."""
    assert (await a_desk(full, client).drain("n0", by="jane")).done


# ── suspend, resume ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def owned(api) -> World:
    """A gang of one Job, which the API server knows."""
    world = a_world(4)
    world.submit(a_gang_of_pods("work", 2, gpu=1, owner=an_owner("Job", "train")))
    world.settle(5.0)
    api.objects[JOBS] = {("default", "train"): {"metadata": {"name": "train"}}}
    return world


@pytest.mark.parametrize(("what", "suspend"), [("suspend", True), ("resume", False)])
async def test_a_job_is_suspended_and_resumed(owned, api, client, what, suspend):
    """One PATCH of the Job by its uid: `suspend`, and that it is no longer Gangwright that paused it."""
    said = await getattr(a_desk(owned, client), what)(GangKey("default", "work"), by="jane")

    (call,) = api.calls
    sent = json.loads(call.body)
    assert said == f"Job train is {what.removesuffix('e')}ed"
    assert (call.method, call.path) == ("PATCH", f"{JOBS}/train")
    assert sent["spec"] == {"suspend": suspend}
    words = {"gangwright.io/paused": None, "gangwright.io/stay-suspended": None}
    assert sent["metadata"] == {"uid": "Job/train", "annotations": words}


@pytest.mark.parametrize("status", [403, 404, 422, 500])
async def test_a_job_that_cannot_be_suspended_is_told_of(owned, api, client, status):
    """The API server's refusal is an answer, with the Job's name; nothing crashes."""
    api.refusals.append(Refuse(status))

    with pytest.raises(DeskError, match="Job train could not be suspended"):
        await a_desk(owned, client).suspend(GangKey("default", "work"), by="jane")


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [None, None],
        [an_owner("ReplicaSet"), an_owner("ReplicaSet")],
        [an_owner("Job", "a"), an_owner("Job", "b")],
    ],
    ids=["no gang", "nobody", "another kind", "two Jobs"],
)
async def test_only_the_gang_of_one_job_is_suspended(api, client, owners):
    """Any other is refused before anything is written."""
    world = a_world(4)
    pods = a_gang_of_pods("work", len(owners), size=len(owners))
    for pod, owner in zip(pods, owners, strict=True):
        world.submit([replace(pod, owner=owner)])
    world.settle(1.0)

    with pytest.raises(DeskError, match="one Job"):
        await a_desk(world, client).suspend(GangKey("default", "work"), by="jane")
    assert api.calls == []
