"""What a nomination keeps a gang from, and for how long."""

from dataclasses import replace

from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.machine import Gangs
from tests.engine.support.wishes import Rules, Wanted
from tests.engine.support.world import World
from tests.support.builders import a_node


def wanted(count: int, gpu: int, kind: str, priority: int) -> Wanted:
    return Wanted(
        count=count, spare=0, gpu=gpu, kind=kind, priority=priority, gated=True, short=None, pin=None,
        strategy=None, required=None, reuse=False, namespace="default", preempts=True, give_way=None,
        runtime=None, grace=0.0,
    )  # fmt: skip


def test_who_is_nominated_no_more_may_ask_others_for_room() -> None:
    """Its nomination is taken back when a stranger took the seat; kube-scheduler makes no room for it then, so we ask
    the stranger.

    Everything comes to rest at the end of the story, which raises AssertionError when somebody waits for nothing.
    """
    story = Gangs()
    rules = Rules(
        order=Order.FIFO,
        backfill=Backfill.NONE,
        reclaim=Reclaim.LOWER,
        shares=0,
        preemption=True,
    )
    story.begin(gpus=[1, 2], two=0, first=[wanted(2, 1, "ReplicaSet", 0)] * 2, laid=rules)
    story.submit(one=wanted(1, 2, "", 10))
    story.machines(gpu=1, what="steal", which=1)
    for count in (1, 1, 1, 4):
        story.watch(coalesced=False, count=count, look=False)
    story.think()
    story.think()
    story.carry_out(count=1, outcome="told", times=1, which=0)
    story.teardown()


def test_a_nomination_left_on_a_bound_member_keeps_nobody_from_making_room() -> None:
    """Its nomination came true, and stands on it still; a member that is made again has room made for it."""
    world = World([a_node("n1", gpu=2)], Policy(preemption_cooldown=1.0))
    first, second = a_gang_of_pods("high", 2, gpu=1, priority=10)
    world.submit([first, second])
    world.settle(5.0)
    world.api.write(replace(world.api.pods[first.key], nominated="n1"))
    world.api.delete(second.key)
    world.steal("n1", gpu=1)
    world.settle(1.0)
    again = replace(second, uid=f"{second.uid}-again", created=world.now)
    world.submit([again])
    world.settle(60.0)

    assert len(world.bound("high")) == 2
