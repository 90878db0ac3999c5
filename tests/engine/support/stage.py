"""What conversations are told with: small clusters, gangs on their way, questions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduler.engine import Engine
from scheduler.model import events as ev
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.model.verbs import FilterCall
from scheduler.model.workload import Phase, Pod
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.world import World
from tests.support.builders import a_node

POLICY = Policy()


def a_world(*gpus: int, policy: Policy = POLICY) -> World:
    """Nodes n0, n1 … of one rack, with so many GPUs."""
    return World([a_node(f"n{i}", gpu=gpu, rack="r") for i, gpu in enumerate(gpus)], policy)


def a_set(world: World, name: str, count: int, *, gpu: int = 1, **said) -> Controller:
    """A ReplicaSet whose pods are a gang."""
    owner = an_owner("ReplicaSet", name)
    membership = a_membership(name, said.pop("quorum", count), **said)
    controller = Controller(
        owner, count, lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=gpu), keeps_names=False
    )
    world.control(controller)
    return controller


def nodes_of(pods: Sequence[Pod]) -> list[str]:
    return sorted(str(pod.node) for pod in pods)


def seats(world: World, gang: str) -> int:
    return len(world.bound(gang))


def a_gang_on_its_way(world: World, *, soft: bool = False) -> None:
    """Two members are let go to n0 and n1, and kube-scheduler has not come to them."""
    if soft:
        world.submit(a_gang_of_pods("train", 2, gpu=2))
    else:
        a_set(world, "train", 2, gpu=2)
    while not all(pod.seat for pod in world.pods("train")):
        world.watch()
        while world.carry_out():
            pass
        world.report()
    world.watch()
    assert sorted(pod.seat.node for pod in world.pods("train") if pod.seat) == ["n0", "n1"]


def asked(world: World, pod: Pod, *candidates: str):
    return world.filter(FilterCall(pod.uid, pod.key, pod.scheduler, pod.native_group, candidates))


def runs(number: int) -> Pod:
    """A pod of one device that somebody makes again."""
    (pod,) = a_gang_of_pods(f"runs-{number}", 1, gpu=1, owner=an_owner("ReplicaSet", "crew"))
    return replace(pod, gated=False, node="n0", phase=Phase.RUNNING, bound_at=1.0)


def an_engine(gpu: int, policy: Policy, now: float, *pods: Pod) -> Engine:
    engine = Engine(policy)
    engine.observe(
        [ev.NodeSeen(a_node("n0", gpu=gpu)), *map(ev.PodSeen, pods), ev.Synced(), ev.TookOver()], now
    )
    return engine


def planned(engine: Engine, now: float) -> Iterator[Effect]:
    while (question := engine.ask(now)) is not None:
        yield from engine.settle(question, engine.answer(question), now)
