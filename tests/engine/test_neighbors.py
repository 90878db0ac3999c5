"""Gangs with rules about other pods, through the whole engine: whom they wait for, who is preempted for them, what they
learn, and in which order their members go.
"""

from dataclasses import replace

from scheduler.engine.explanation import foresee
from scheduler.model.decision import Reason
from scheduler.model.demand import Operator, Requirement
from scheduler.model.effects import Nominate, Ungate
from scheduler.model.neighbors import Neighbors, PodSelector, PodTerm, TopologySpread
from scheduler.model.policy import Policy
from scheduler.model.workload import Pod
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.engine.support.stage import a_world, nodes_of, seats
from tests.engine.support.world import World
from tests.support.builders import HOST, RACK, a_node

HOUR = 3600.0
LOUD = PodSelector(("default",), None, (Requirement("is", Operator.IN, ("loud",)),))
APART = Neighbors(anti_affinity=(PodTerm(HOST, LOUD),))
EVEN = Neighbors(spread=(TopologySpread(RACK, LOUD, 1),))


def loud(name: str, count: int, rules: Neighbors = APART, **said) -> list[Pod]:
    """A gang whose pods are labeled, with these rules."""
    return [
        replace(pod, neighbors=rules, labels="is=loud") for pod in a_gang_of_pods(name, count, gpu=1, **said)
    ]


def message(world: World, gang: str, reason: Reason) -> str:
    return next(told.message for _, told in reversed(world.announced(gang)) if told.reason is reason)


def test_the_second_of_two_gangs_starts_when_the_first_has_ended() -> None:
    """There is room for both by their devices. The first keeps every node, and the second is told so and when."""
    world = a_world(4, 4, 4, 4)
    world.submit(loud("first", 4, wish={"runtime": HOUR}))
    world.settle(10.0)
    world.submit(loud("second", 4))
    world.settle(10.0)

    assert (seats(world, "first"), seats(world, "second")) == (4, 0)
    assert "4 node(s) didn't match pod anti-affinity rules" in message(
        world, "second", Reason.INSUFFICIENT_RESOURCES
    )
    (start,) = foresee(world.engine.outlook(world.now)).values()
    assert start.middle > world.now + HOUR / 2
    for pod in world.pods("first"):
        world.api.delete(pod.key)
    world.settle(100.0)
    assert nodes_of(world.pods("second")) == ["n0", "n1", "n2", "n3"]


def test_a_gang_that_is_kept_away_by_lower_priority_preempts_it() -> None:
    """The victims' devices are not needed, their nodes are."""
    world = a_world(4, 4)
    world.submit(loud("low", 2))
    world.settle(10.0)
    world.submit(loud("high", 2, priority=10))
    world.settle(100.0)
    assert (seats(world, "low"), seats(world, "high")) == (0, 2)


def test_nobody_is_preempted_where_no_member_may_go() -> None:
    """A pod of higher priority keeps members away from its node, so the gangs on the other nodes give way, no third."""
    world = a_world(1, 1, 1)
    for number in range(3):
        world.submit(a_gang_of_pods(f"low{number}", 1, gpu=1))
    world.settle(10.0)
    (closed,) = nodes_of(world.pods("low0"))
    guard = a_pod("guard", scheduler="other", node=closed, priority=100, labels="is=loud")
    world.submit([guard])
    world.settle(10.0)
    away = Neighbors(anti_affinity=(PodTerm(HOST, LOUD),))
    world.submit([replace(pod, neighbors=away) for pod in a_gang_of_pods("high", 2, gpu=1, priority=10)])
    world.settle(100.0)

    assert seats(world, "high") == 2
    assert closed not in nodes_of(world.pods("high"))
    assert seats(world, "low0") == 1


def test_members_go_one_after_another_where_their_order_counts() -> None:
    """Each is nominated and ungated only after the one before is bound, so kube-scheduler refuses none."""
    nodes = [a_node(f"n{i}", gpu=2, rack=f"r{i % 2}") for i in range(4)]
    world = World(nodes, Policy())
    world.submit(loud("even", 6, EVEN))
    world.settle(30.0)

    assert seats(world, "even") == 6
    order = [own.uid for own in world.said if isinstance(own, Ungate)]
    nominated = [own.uid for own in world.said if isinstance(own, Nominate) and own.node]
    assert nominated == order
    assert len(set(order)) == 6


def test_a_dry_run_knows_rules_that_nobody_had_before() -> None:
    """Pods that do not exist yet are judged beside those that do, by selectors that no pod has named so far."""
    world = a_world(4, 4)
    world.submit([replace(pod, labels="is=loud") for pod in a_gang_of_pods("there", 1, gpu=1)])
    world.settle(10.0)
    ledger = world.engine.ledger

    def answer(count: int):
        pods = loud("would", count)
        sketched = world.engine.sketch(pods)
        return world.engine.trial(sketched, world.now).answer(ledger.policy)[0]

    assert len(answer(1).seats) == 1
    assert answer(2).reason is Reason.INSUFFICIENT_RESOURCES
    assert answer(3).reason is Reason.EXCEEDS_CLUSTER


def test_members_that_lost_their_seats_meanwhile_do_not_get_their_turn() -> None:
    """While the first of an ordered gang is on its way, a seat of the others is lost: the rest is planned again."""
    nodes = [a_node(f"n{i}", gpu=1, rack=f"r{i % 2}") for i in range(6)]
    world = World(nodes, Policy())
    world.submit(loud("even", 4, EVEN))
    for _ in range(50):
        world.watch()
        world.plan()
        while world.carry_out():
            pass
        world.report()
        record = world.record("even")
        if record.plan is not None and record.plan.in_turn:
            break
    assert record.plan is not None
    later = record.plan.in_turn[-1]
    world.api.delete_node(later.node)
    world.settle(100.0)
    assert seats(world, "even") == 4
    assert later.node not in nodes_of(world.pods("even"))
