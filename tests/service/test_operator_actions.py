"""What serves people: dry runs on the engine that decides."""

from dataclasses import replace

import pytest

from scheduler.model.decision import Reason
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Share
from scheduler.model.workload import GangKey, Pod, Uid
from scheduler.service.operator_actions import OperatorActions
from scheduler.status.operator_api import Drained
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.situations import thought_of
from tests.engine.support.stage import a_world
from tests.engine.support.world import World
from tests.support.builders import GPU


async def drains(node: str, by: str) -> Drained:
    """What stands for the drain; its own tests are elsewhere."""
    return Drained(done=(node, by) == ("n0", "jane"))


def an_operator(world: World) -> OperatorActions:
    return OperatorActions(world.engine, lambda: world.now, drains, lambda _found: None)


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


async def test_a_gang_that_fits_is_given_its_seats(full):
    """It would start at once: everybody's node is told, and nobody would leave."""
    pods = thinks_of(full, 4, gpu=1)

    said = await an_operator(full).simulate(pods)

    assert (said.reason, said.victims) == (Reason.SEATED, ())
    assert said.seats.keys() == {pod.uid for pod in pods}
    assert {pod.node for pod in full.bound("runs")}.isdisjoint(said.seats.values())


async def test_a_gang_without_room_is_told_when_it_will_have_some(full):
    """The figures of what it lacks, and the time from which room would be kept for it."""
    said = await an_operator(full).simulate(thinks_of(full, 8, gpu=1))

    assert (said.reason, dict(said.seats)) == (Reason.INSUFFICIENT_RESOURCES, {})
    assert (said.shortfall.needed, said.shortfall.best) == (8, 4)
    assert str(said.shortfall) in said.message
    assert said.start.middle == full.record("runs").observed.since + 60.0


async def test_a_gang_that_matters_more_is_told_whom_it_costs(full):
    """The seats are its own once those have left who are named."""
    said = await an_operator(full).simulate(thinks_of(full, 8, gpu=1, priority=10))

    assert said.reason is Reason.WAITING_FOR_PREEMPTION
    assert len(said.seats) == 8
    assert [unit.gang.name for unit in said.victims] == ["runs"]
    assert said.message == "the gang would preempt 4 pods and start when all of them have terminated"


ANTI = "spec.affinity.podAntiAffinity"


@pytest.mark.parametrize(("count", "priority"), [(4, 0), (8, 10)], ids=["room", "room made"])
async def test_what_is_not_modelled_is_no_yes(full, count, priority):
    """There is room by what the planner models: what it does not model decides, so it cannot be told, and by which
    field. No seat is named, and no victim.
    """
    pods = [replace(pod, unmodeled=(ANTI,)) for pod in thinks_of(full, count, gpu=1, priority=priority)]

    said = await an_operator(full).simulate(pods)

    assert (said.reason, said.seats, said.victims) == (Reason.UNSUPPORTED_FIELD, {}, ())
    assert said.message.startswith(f"cannot tell: {ANTI}: ")


async def test_what_is_not_modelled_changes_no_no(full):
    """A gang without room waits, whatever else its pods ask for."""
    pods = [replace(pod, unmodeled=(ANTI,)) for pod in thinks_of(full, 8, gpu=1)]

    assert (await an_operator(full).simulate(pods)).reason is Reason.INSUFFICIENT_RESOURCES


async def test_more_of_a_gang_that_has_its_quorum():
    """Pods beyond the quorum of a gang that runs, for which there is no room, are told that, and not that they start."""
    world = a_world(4)
    gang = a_gang_of_pods("runs", 4, gpu=1)
    world.submit(gang)
    world.settle(5.0)
    more = [replace(pod, uid=Uid(f"more-{pod.uid}")) for pod in gang]

    said = await an_operator(world).simulate(thought_of(more, world.now))

    assert (said.reason, said.seats) == (Reason.INSUFFICIENT_RESOURCES, {})
    assert "already exists with its quorum" in said.message


async def test_a_gang_over_its_ceiling_is_told_the_ceiling():
    """The namespace's ceiling is named with its figures, whatever room there is."""
    world = a_world(8, policy=Policy(shares={"default": Share(ceiling=((GPU, 2),))}))

    said = await an_operator(world).simulate(thinks_of(world, 3, gpu=1))

    assert said.reason is Reason.QUOTA_EXCEEDED
    assert "3" in said.message
    assert "2" in said.message


async def test_a_gang_that_contradicts_itself_is_told_what_to_mend(full):
    """Field, value and remedy are in the answer."""
    pods = [*thinks_of(full, 1), *a_gang_of_pods("other", 1)]

    said = await an_operator(full).simulate(pods)

    assert (said.reason, said.seats) == (Reason.CONFLICT, {})
    assert "one gang" in said.message


async def test_without_reservations_no_time_is_told():
    """Where nobody's room is kept in time, a gang that waits is not told when it will start."""
    world = a_world(4, policy=Policy(backfill=Backfill.FREE))
    world.submit(a_gang_of_pods("runs", 4, gpu=1, wish={"runtime": 60.0}))
    world.settle(5.0)

    said = await an_operator(world).simulate(thinks_of(world, 2, gpu=1))

    assert (said.reason, said.start) == (Reason.INSUFFICIENT_RESOURCES, None)


async def test_a_dry_run_leaves_no_trace(full):
    """Nothing is held, nobody waits, and nothing was written."""
    before = (full.engine.ledger.holds(), len(full.engine.ledger.pending), len(full.said))

    await an_operator(full).simulate(thinks_of(full, 8, gpu=1, priority=10))

    assert (full.engine.ledger.holds(), len(full.engine.ledger.pending), len(full.said)) == before


# ── what was worked out anyway ──────────────────────────────────────────────────────────────────────────


async def test_who_is_asked_to_leave_is_known(full):
    """While room is made for a gang its victims are named; for any other gang there are none."""
    full.api.grace = lambda _pod: 60.0
    full.submit(a_gang_of_pods("urgent", 8, gpu=1, priority=10))
    full.settle(2.0)
    operator = an_operator(full)

    assert [unit.gang.name for unit in operator.victims(GangKey("default", "urgent"))] == ["runs"]
    assert operator.victims(GangKey("default", "runs")) == ()
    assert operator.victims(GangKey("default", "nobody")) == ()


async def test_a_drain_is_passed_on(full):
    """With the node, and who asked."""
    assert (await an_operator(full).drain("n0", by="jane")).done
