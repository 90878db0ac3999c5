"""Drains and moves for a person: what must be true before them, and what is told of them."""

import pytest

from scheduler.model.departures import Departure, Drain
from scheduler.model.workload import GangKey, PodKey
from scheduler.service.operator_actions import OperatorActions, drain_node, drained, make_moves
from scheduler.status.operator_api import Moved, OperatorError
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_set, a_world, nodes_of, seats
from tests.engine.support.world import World

TRAIN = GangKey("default", "train")


class Working:
    """A service as far as a drain uses it: the engine of a world, and its effects on their way."""

    def __init__(self, world: World, *, acts: bool = True) -> None:
        self.engine = world.engine
        self.clock = lambda: world.now
        self.submit = world._do
        self.may_act = lambda: acts


def pods(*names: str) -> tuple[PodKey, ...]:
    return tuple(PodKey("default", name) for name in names)


async def test_a_node_that_takes_new_pods_is_not_drained() -> None:
    """What leaves it would come back: it is to be cordoned first, and the error says how."""
    with pytest.raises(OperatorError, match="kubectl cordon n0"):
        await drain_node(Working(a_world(2)), "n0", "jane")


async def test_a_replica_that_does_not_act_says_so() -> None:
    """It knows less than the one that acts, and its effects would go nowhere."""
    world = a_world(2)
    world.engine.ledger.acting = False
    with pytest.raises(OperatorError, match="is not active"):
        await drain_node(Working(world), "n0", "jane")


async def test_a_replica_that_slept_through_its_lease_moves_nobody() -> None:
    """It took itself for the one that acts when it was last looked at: it asks again before it plans a move."""
    world = a_world(2, 2)
    a_set(world, "train", 1, gpu=2)
    world.settle(5)
    node = nodes_of(world.bound("train"))[0]
    world.api.cordon(node, off=True)
    world.watch()
    with pytest.raises(OperatorError, match="is not active"):
        await drain_node(Working(world, acts=False), node, "jane")
    assert len(world.engine.ledger.migrations) == 0


async def test_a_gang_is_moved_and_told_of() -> None:
    """The answer names the gang, how many of its pods move, and where to; in the end nothing is left."""
    world = a_world(2, 2, 2)
    a_set(world, "train", 2, gpu=2)
    world.settle(5)
    node = nodes_of(world.bound("train"))[0]
    world.api.cordon(node, off=True)
    world.watch()
    told = await drain_node(Working(world), node, "jane")
    assert not told.done
    (moved,) = told.moves
    assert (moved.gang, moved.pods) == (TRAIN, 2)
    assert moved.outcome.startswith("the whole gang moves to n")
    world.settle(5)
    assert seats(world, "train") == 2
    assert (await drain_node(Working(world), node, "jane")).done


@pytest.mark.parametrize(
    ("departure", "pods_counted", "outcome"),
    [
        (Departure(TRAIN, dict.fromkeys(pods("a", "b"), "n1")), 2, "moves to n1 × 2"),
        (
            Departure(TRAIN, {pods("a")[0]: "n1"}, dict.fromkeys(pods("b"), "no room")),
            2,
            "moves to n1; 1 stays: no room",
        ),
        (Departure(TRAIN, leaving=pods("a", "b")), 2, "2 terminating"),
        (Departure(TRAIN, {pods("a")[0]: "n1"}, whole=True), 1, "the whole gang moves to n1"),
    ],
)
def test_what_becomes_of_a_gang_is_said_in_words(
    departure: Departure, pods_counted: int, outcome: str
) -> None:
    """Where to, what stays and why, what is leaving already."""
    told = drained(Drain("n0", (departure,)))
    assert told.moves == (Moved(TRAIN, pods_counted, outcome),)


# ── moves that make room ────────────────────────────────────────────────────────────────────────────────


def acting(world: World, *, acts: bool = True) -> OperatorActions:
    working = Working(world, acts=acts)
    return OperatorActions(
        world.engine, working.clock, lambda *_: None, lambda found: make_moves(working, found)
    )


def in_the_way() -> World:
    """A small gang has half of a node. A gang waits that needs a whole one, and the other is half taken for good."""
    world = a_world(2, 2)
    a_set(world, "small", 1, gpu=1)
    world.settle(5)
    (node,) = nodes_of(world.bound("small"))
    world.steal("n1" if node == "n0" else "n0", gpu=1)
    world.submit(a_gang_of_pods("large", 1, gpu=2))
    world.settle(5)
    return world


async def test_moves_are_found_and_made() -> None:
    """The first gang that waits gets the node, and the one that was there the half of the other."""
    world = in_the_way()
    operator = acting(world)
    found = await operator.find_moves()
    assert found is not None
    assert found.gang.name == "large"
    operator.make_moves(found, "jane")
    world.settle(10)
    assert (seats(world, "large"), seats(world, "small")) == (1, 1)
    assert await operator.find_moves() is None


async def test_moves_that_no_longer_hold_are_refused() -> None:
    """The room was taken between the search and the moves: the person is told to run it again."""
    world = in_the_way()
    operator = acting(world)
    found = await operator.find_moves()
    assert found is not None
    world.steal(next(iter(found.moves[0].seats.values())), gpu=1)
    world.watch()
    with pytest.raises(OperatorError, match="run the command again"):
        operator.make_moves(found, "jane")
    assert len(world.engine.ledger.migrations) == 0


async def test_a_replica_that_does_not_act_makes_no_moves() -> None:
    """It asks again whether it acts before it begins."""
    world = in_the_way()
    found = await acting(world).find_moves()
    assert found is not None
    with pytest.raises(OperatorError, match="is not active"):
        acting(world, acts=False).make_moves(found, "jane")
    assert len(world.engine.ledger.migrations) == 0
