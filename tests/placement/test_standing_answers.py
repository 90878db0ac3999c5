"""Answers by counts: each is the planner's answer, to the last figure, whatever happened to free capacity since."""

import random
from dataclasses import replace

import numpy as np
import pytest

from scheduler.model.cluster import Node, Nomination, Snapshot
from scheduler.model.decision import Decision, Reason, Wait
from scheduler.model.workload import Gang, GangKey, Strategy
from scheduler.placement import member_counts, planner, reservation, standing_answers
from scheduler.placement.feasibility import FeasibilityCache
from scheduler.placement.member_counts import CountedDemands, MemberCounts, changed_rows
from scheduler.placement.standing_answers import StandingAnswers
from tests.placement.support.asking import POLICY
from tests.support.builders import (
    GPU,
    RACK,
    a_cluster,
    a_demand,
    a_gang,
    a_node,
    a_role,
    a_snapshot,
    a_taint,
    some_amounts,
    some_nodes,
)

OTHERS = ("example.com/fpga", "hugepages-2Mi", "attachable-volumes-disk")
FIRST = GangKey("default", "first")
LACK = {Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY_UNSATISFIED}


def told(snapshot: Snapshot, gang: Gang, masks: FeasibilityCache, kept: np.ndarray | None = None) -> Decision:
    """The answer to a question: in this capacity, or in what a reservation leaves of `kept`."""
    found = planner.decide(snapshot, gang, POLICY, None, masks)
    lacks = isinstance(found, Wait) and found.reason in LACK
    if lacks and kept is not None and reservation.could_hold(snapshot, kept, gang, masks):
        return Wait(Reason.CAPACITY_RESERVED, found.shortfall, held_for=FIRST)
    return found


def some_node(chance: random.Random, number: int) -> Node:
    return a_node(
        f"n{number:02}",
        cpu=chance.randint(0, 6),
        memory=chance.randint(1, 6),
        gpu=chance.randint(number == 0, 4),
        pods=chance.choice([2, 9]),
        more={name: chance.randint(0, 2) for name in OTHERS if chance.random() < 0.3},
        rack=chance.choice(["r0", "r1", "r2", None]),
        area=chance.choice(["a0", "a1"]),
        host=chance.random() < 0.9,
        labels={"pool": chance.choice(["x", "y"])},
        taints=chance.choice([(), (), (a_taint("own", "NoSchedule"),)]),
        schedulable=chance.random() < 0.9,
    )


def a_crowd(chance: random.Random) -> Snapshot:
    return a_snapshot([some_node(chance, number) for number in range(chance.randint(1, 14))])


def a_shape(chance: random.Random, number: int) -> Gang:
    roles = [
        a_role(
            f"role{role}",
            chance.randint(0, 5),
            surplus=chance.choice([0, 0, 2]),
            demand=a_demand(
                cpu=chance.randint(0, 3),
                memory=chance.randint(0, 2),
                gpu=chance.randint(0, 2),
                more={name: 1 for name in OTHERS if chance.random() < 0.05},
                selector=chance.choice([None, None, {"pool": "x"}]),
                ports=chance.choice([(), (), (), (), (80,)]),
            ),
        )
        for role in range(chance.choice([1, 1, 2, 3]))
    ]
    return a_gang(
        roles=roles,
        name=f"g{number}",
        strategy=chance.choice(list(Strategy)),
        level=chance.choice(["host", "rack", "area"]),
        required=chance.random() < 0.6,
        priority=chance.choice([0, 1]),
        barred=chance.choice([(), (), (), ("n00",)]),
        anchors=chance.choice([(), (), (), ("n00",)]),
    )


def moved(chance: random.Random, snapshot: Snapshot, number: int) -> Snapshot:
    """Pods came and left on some nodes: mostly on one."""
    free = snapshot.free.copy()
    for row in chance.choices(range(len(free)), k=chance.choice([1, 1, 1, 2, len(free)])):
        free[row] = np.floor(snapshot.capacity[row] * chance.choice([0, 0, 0.3, 0.5, 1])) - chance.choice(
            [0, 0, 0, 1]
        )
    free.flags.writeable = False
    needs = snapshot.axis.vector(some_amounts(gpu=1))
    nominated = (Nomination(0, chance.choice([0, 1]), needs),) if chance.random() < 0.1 else ()
    return replace(snapshot, free=free, generation=number, nominations=nominated)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_answers_by_counts_are_the_planners(seed):
    """After any change of free capacity, beside a reservation or not."""
    chance = random.Random(seed)
    snapshot, masks = a_crowd(chance), FeasibilityCache()
    gangs = [a_shape(chance, number) for number in range(20)]
    standing = StandingAnswers(snapshot, masks)
    for step in range(20):
        snapshot = moved(chance, snapshot, step)
        shadow = moved(chance, snapshot, step)
        left = replace(snapshot, free=np.minimum(snapshot.free, shadow.free))
        for here, kept in ((snapshot, None), (left, snapshot.free)):
            known = standing.free(here) if kept is None else standing.behind(snapshot, here.free, FIRST)
            for number, gang in enumerate(gangs):
                answer = told(here, gang, masks, kept)
                assert known.get(number, answer) == answer
                if number not in known and chance.random() < 0.5:
                    standing.learn(number, gang, here, kept, answer)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_answers_hold_through_changes_of_nodes(seed):
    """Nodes and resources change, come and leave, pods too: what is known then is what the planner says, and the counts
    are new ones.
    """
    found = [_held(seed + more) for more in range(10)]
    assert all(map(sum, zip(*found, strict=True)))


def _held(seed: int) -> tuple[int, int]:
    """How often an answer was known, and how often right after a resource came."""
    chance = random.Random(seed)
    nodes = {number: some_node(chance, number) for number in range(4)}
    nodes[90] = a_node("n90", cpu=6, memory=6, gpu=4, pods=9, more={OTHERS[0]: 2}, rack="r0", area="a0")
    gangs = [a_shape(chance, number) for number in range(20)]
    masks, used = FeasibilityCache(), {}
    standing, held, before, held_beside = None, 0, None, 0
    for step in range(30):
        for number in chance.choices(range(6), k=chance.choice([0, 1, 1, 2])):
            nodes[number] = (
                some_node(chance, number)
                if chance.random() < 0.5
                else _other(chance, nodes.get(number), number)
            )
            if chance.random() < 0.2:
                del nodes[number]
        listed = [nodes[number] for number in sorted(nodes)]
        for node in listed:
            used[node.name] = tuple(
                (name, chance.choice([amount, amount, 0])) for name, amount in node.capacity
            )
        here = a_snapshot(listed, used={node.name: used.get(node.name, ()) for node in listed})
        snapshot = replace(here, generation=step, nodes_version=step, nodes=tuple(listed))
        if standing is None or not standing.follow(snapshot):
            standing = StandingAnswers(snapshot, masks)
        known = standing.free(snapshot)
        held += len(known)
        held_beside += len(known) if before is not None and len(snapshot.axis) > len(before) else 0
        before = snapshot.axis
        for number, gang in enumerate(gangs):
            answer = told(snapshot, gang, FeasibilityCache())
            assert known.get(number, answer) == answer
            if number not in known:
                standing.learn(number, gang, snapshot, None, told(snapshot, gang, masks))
        fresh = MemberCounts(standing._demands, snapshot.free)
        fresh.extend()
        kept = standing._counts[0]
        assert (kept.total == fresh.total).all()
        assert (kept.nodes == fresh.nodes).all()
        assert all((kept.domains[number] == own).all() for number, own in fresh.domains.items())
    return held, held_beside


def _other(chance: random.Random, node: Node | None, number: int) -> Node:
    """The same node with another rack, or cordoned."""
    if node is None:
        return some_node(chance, number)
    if chance.random() < 0.3:
        return replace(node, schedulable=not node.schedulable)
    return replace(node, labels={**node.labels, RACK: chance.choice(["r0", "r1", "r3"])})


def test_most_gangs_of_a_full_cluster_have_an_answer():
    """All strategies, levels and roles: after a device was freed the planner is asked about none of them."""
    full = a_cluster(areas=2, racks=2, nodes=4, gpu=4)
    full = replace(full, free=full.free * [name != GPU for name in full.axis.names])
    gangs, masks = gangs_of_all_kinds(), FeasibilityCache()
    standing = StandingAnswers(full, masks)
    for number, gang in enumerate(gangs):
        standing.learn(number, gang, full, None, told(full, gang, masks))
    free = full.free.copy()
    free[5, full.axis.index[GPU]] = 1
    freed = replace(full, free=free)

    known = standing.free(freed)

    assert known == {number: told(freed, gang, masks) for number, gang in enumerate(gangs)}


def test_answers_hold_beside_a_new_device():
    """A node with a device that no other node has comes to a full cluster: the planner is asked about none of them, but
    for required spreads, as after any node that comes.
    """
    nodes = some_nodes(areas=2, racks=2, nodes=4, gpu=4)
    used = {node.name: some_amounts(gpu=4) for node in nodes}
    full = replace(a_snapshot(nodes, used=used), nodes=tuple(nodes))
    gangs = [own for own in gangs_of_all_kinds() if not own.required or own.strategy is not Strategy.SPREAD]
    masks = FeasibilityCache()
    standing = StandingAnswers(full, masks)
    for number, gang in enumerate(gangs):
        standing.learn(number, gang, full, None, told(full, gang, masks))
    nodes.append(a_node("b", gpu=1, rack="a0-r0", area="a0", more={"example.com/fpga": 4}))
    grown = replace(a_snapshot(nodes, used=used, version=2), nodes=tuple(nodes))

    assert standing.follow(grown)

    assert standing.free(grown) == {
        number: told(grown, gang, FeasibilityCache()) for number, gang in enumerate(gangs)
    }


def gangs_of_all_kinds() -> list[Gang]:
    launcher = a_role("launcher", 1, cpu=1)
    return [
        a_gang(
            roles=[*also, a_role("worker", 4, gpu=gpu, cpu=1)],
            strategy=strategy,
            level=level,
            required=required,
        )
        for also in ([], [launcher])
        for gpu in (1, 2)
        for strategy in Strategy
        for level in ("rack", "area")
        for required in (False, True)
    ]


def test_counts_follow_free_capacity():
    """They are those of a new table after any change, in total, by node and by domain."""
    chance = random.Random(1)
    snapshot = a_crowd(chance)
    demands = CountedDemands(snapshot, FeasibilityCache())
    counts = MemberCounts(demands, snapshot.free)
    for step in range(60):
        if step % 5 == 0:
            demands.number(
                a_demand(gpu=chance.randint(0, 2), cpu=chance.randint(0, 2)), chance.choice([None, 0, 1, 2])
            )
        before, snapshot = snapshot, moved(chance, snapshot, step)
        counts.follow(snapshot.free)
        counts.extend()
        fresh = MemberCounts(demands, snapshot.free)
        fresh.extend()

        assert (counts.total == fresh.total).all()
        assert (counts.nodes == fresh.nodes).all()
        assert counts.domains.keys() == fresh.domains.keys()
        assert all((counts.domains[number] == own).all() for number, own in fresh.domains.items())
        rows = changed_rows(before.free, snapshot.free).tolist()
        assert rows == [n for n in range(len(before.free)) if (before.free[n] != snapshot.free[n]).any()]


def test_what_is_kept_is_bounded(monkeypatch):
    """No more shapes than the limit are learned."""
    monkeypatch.setattr(standing_answers, "SHAPES_KEPT", 3)
    empty = a_snapshot([a_node("n0", gpu=1)], used={"n0": some_amounts(gpu=1)})
    masks = FeasibilityCache()
    standing = StandingAnswers(empty, masks)
    for number in range(9):
        gang = a_gang(1, gpu=1, cpu=number)
        standing.learn(number, gang, empty, None, told(empty, gang, masks))

    assert standing.is_full()
    assert len(standing.free(empty)) == 3


def test_demands_without_an_answer_are_bounded_too(monkeypatch) -> None:
    """Gangs that counting says nothing about leave their demands behind, and these fill the store."""
    monkeypatch.setattr(member_counts, "DEMANDS_KEPT", 3)
    snapshot = a_snapshot([a_node("n0", cpu=8, memory=8, gpu=8)])
    masks = FeasibilityCache()
    standing = StandingAnswers(snapshot, masks)
    wait = told(snapshot, a_gang(1, gpu=9), masks)
    for number in range(4):
        fits_alone = a_gang(1, demand=a_demand(cpu=1 + number))
        standing.learn(number, fits_alone, snapshot, None, wait)

    assert standing.is_full()
    assert standing.free(snapshot) == {}
