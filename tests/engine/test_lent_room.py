"""Room that a namespace lends to another, and gets back; ceilings, and what does not fit below them."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler.model.queueing import Share
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.engine.support.freeing import a_stage, told
from tests.engine.support.stage import POLICY, seats
from tests.support.builders import GPU

LENT: Mapping[str, Share] = {"default": Share(((GPU, 2),)), "lab": Share(((GPU, 2),))}


def test_borrowed_room_is_given_back() -> None:
    """A gang of equal priority within the guarantee of its namespace gets its room back from the borrower, and no
    more.
    """
    world = a_stage(4, policy=replace(POLICY, shares=LENT))
    for name in ("one", "two"):
        world.submit(a_gang_of_pods(name, 2, gpu=1))
        world.settle(1)
    world.submit(a_gang_of_pods("lender", 2, gpu=1, namespace="lab"))
    world.settle(1)
    assert len(world.bound("lender", "lab")) == 2
    assert sorted([seats(world, "one"), seats(world, "two")]) == [0, 2]


def test_a_ceiling_is_told_with_its_numbers() -> None:
    """A gang above its namespace's ceiling waits beside room, and is told what is used, needed and allowed."""
    shares = {"default": Share(ceiling=((GPU, 3),))}
    world = a_stage(8, policy=replace(POLICY, shares=shares))
    world.submit(a_gang_of_pods("one", 2, gpu=1))
    world.settle(1)
    world.submit(a_gang_of_pods("two", 2, gpu=1))
    world.settle(10)
    assert seats(world, "two") == 0
    assert "needs 2 of nvidia.com/gpu; 2 of the ceiling of 3 are in use" in told(world, "two")
    for pod in world.pods("one"):
        world.api.delete(pod.key)
    world.settle(1)
    assert seats(world, "two") == 2


def test_a_ceiling_holds_for_a_pod_without_our_gate() -> None:
    """kube-scheduler asks about a single pod whose namespace is at its ceiling: it waits, too."""
    world = a_stage(8, policy=replace(POLICY, shares={"default": Share(ceiling=((GPU, 3),))}))
    world.submit(a_gang_of_pods("one", 3, gpu=1))
    world.settle(1)
    (single,) = world.submit([a_pod("single", gpu=1, gated=False)])
    world.settle(10)
    assert world.api.pods[single.key].node is None
    world.api.delete(world.pods("one")[0].key)
    world.settle(1)
    assert world.api.pods[single.key].node is not None


def test_surplus_stays_below_the_ceiling() -> None:
    """Of an elastic gang only so many workers are seated as its namespace may use; the rest is told."""
    world = a_stage(8, policy=replace(POLICY, shares={"default": Share(ceiling=((GPU, 3),))}))
    world.submit(a_gang_of_pods("elastic", 5, quorum=2, gpu=1))
    world.settle(10)
    assert seats(world, "elastic") == 3
