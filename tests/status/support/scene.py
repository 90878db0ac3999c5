"""A cluster with something to show: a gang that runs, one that waits, one that is incomplete, one that is refused.

Built on the engine in its world of its own, so that what a view shows has really come about.
"""

from scheduler.model.policy import Policy
from scheduler.model.workload import Complaint
from scheduler.status.authorization import Sight, aliases
from tests.engine.support.cast import a_gang_of_pods, a_pod
from tests.engine.support.world import World
from tests.support.builders import some_nodes

POLICY = Policy()
ALIAS = aliases(b"secret of the tests")
EVERYTHING = Sight(None, ALIAS)
NOBODY = Sight(frozenset(), ALIAS)

HOSTILE = "<img src=x onerror=alert(1)>"
"""What no name may become in a browser. The API server takes it as a role or a label's text, not as a name."""


def a_scene(*, acting: bool = True) -> World:
    """Two areas of two racks of two nodes with 8 GPUs each.

    team-a/train (16 GPUs) runs; team-b/huge (48) waits; team-b/late lacks a member; team-a/wrong is refused;
    team-a/solo is a pod alone, and runs.
    """
    world = World(some_nodes(areas=2, racks=2, nodes=2, gpu=8), POLICY)
    if acting:
        world.submit(a_gang_of_pods("train", 4, namespace="team-a", gpu=4, priority=10))
        world.submit([a_pod("solo", namespace="team-a", gpu=1)])
        world.settle(30)
    world.submit(a_gang_of_pods("huge", 12, namespace="team-b", gpu=4))
    world.submit(a_gang_of_pods("late", 2, quorum=3, namespace="team-b", gpu=1))
    complaint = Complaint("gangwright.io/strategy", HOSTILE, "one of pack, spread, cosine")
    world.submit(a_gang_of_pods("wrong", 1, namespace="team-a", complaints=(complaint,)))
    world.settle(30)
    return world
