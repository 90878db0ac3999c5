"""A small cluster in which gangs make room for each other, and what is asked about it."""

from scheduler.model.decision import Reason
from scheduler.model.effects import Evict
from scheduler.model.policy import Policy
from scheduler.model.workload import GiveWay, Pod
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.stage import POLICY, a_world
from tests.engine.support.witness import Witness
from tests.engine.support.world import World

GRACE = 30.0


def a_stage(*gpus: int, grace: float = 0.0, policy: Policy = POLICY) -> World:
    """A small cluster with a witness, in which pods that are told to go take `grace` seconds for it."""
    world = a_world(*gpus, policy=policy)
    Witness(world)
    world.api.grace = lambda _pod: grace
    return world


def important(world: World, count: int, *, name: str = "important", **each) -> list[Pod]:
    return world.submit(a_gang_of_pods(name, count, **{"gpu": 1, "priority": 100, **each}))


def a_job(world: World, name: str, count: int, *, gpu: int = 1, priority: int = 0, **said) -> Controller:
    """A Job that is suspended when it gives way."""
    owner = an_owner("Job", name)
    membership = a_membership(name, count, give_way=GiveWay.SUSPEND, **said)
    job = Controller(
        owner,
        count,
        lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=gpu, priority=priority),
    )
    world.control(job)
    return job


def evicted(world: World) -> list[str]:
    """Gangs that were asked to leave, once for each pod."""
    own = [e for e in world.said if isinstance(e, Evict) and e.reason is Reason.PREEMPTED]
    return sorted({(e.key.name, e.uid) for e in own} and {e.key.name for e in own})


def told(world: World, gang: str) -> str:
    return world.announced(gang)[-1][1].message
