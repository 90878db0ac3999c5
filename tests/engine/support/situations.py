"""Clusters in the midst of their work, made by chance: who runs, who waits, whose room is reserved, who makes room.

The same number always makes the same situation. Nobody learned anything of how long gangs run, nobody backs off and no
node is barred: a dry run knows nothing of what a running service alone remembers.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.workload import GiveWay, Phase, Pod, Strategy
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_gang_of_pods, a_membership, a_pod, an_owner
from tests.engine.support.world import World
from tests.support.builders import GPU, a_node

NAMESPACES = ("default", "lab")
PRIORITIES = (0, 0, 0, 5, 10)
GUARANTEES = {"default": Share(((GPU, 6),)), "lab": Share(((GPU, 5),), weight=2.0)}
CEILINGS = {"default": Share(ceiling=((GPU, 7),)), "lab": Share(((GPU, 4),), ((GPU, 6),))}


def a_policy(chance: Random) -> Policy:
    """Any order, with or without shares, reservations and preemption."""
    return Policy(
        order=chance.choice([Order.FIFO, *Order]),
        backfill=chance.choice([Backfill.RESERVE, Backfill.RESERVE, *Backfill]),
        reclaim=chance.choice(list(Reclaim)),
        shares=chance.choice([{}, {}, GUARANTEES, CEILINGS]),
        preemption=chance.random() < 0.8,
        las_quantum=60.0,
        preemption_cooldown=30.0,
    )


def a_wish(chance: Random) -> dict[str, object]:
    """What a gang says of itself, as a_membership takes it."""
    return {
        "strategy": chance.choice([None, None, Strategy.SPREAD, Strategy.COSINE]),
        "level": chance.choice([None, None, "host", "area"]),
        "required": chance.choice([None, None, True]),
        "runtime": chance.choice([None, 20.0, 200.0, 2000.0]),
        "give_way": chance.choice([None, GiveWay.SUSPEND]),
    }


def a_situation(seed: int) -> World:
    """A small cluster after some minutes in which gangs came, began, ended and gave way."""
    chance = Random(seed)
    racks = chance.randint(1, 3)
    nodes = [
        a_node(f"n{number}", gpu=chance.choice([2, 4, 4, 8]), rack=f"r{number % racks}", area="a")
        for number in range(chance.randint(2, 6))
    ]
    world = World(nodes, a_policy(chance))
    slow = chance.random() < 0.4
    world.api.grace = lambda _pod: 90.0 if slow else 0.0
    for number in range(chance.randint(3, 12)):
        _come(world, chance, number)
        if chance.random() < 0.25:
            _end(world, chance)
        world.settle(chance.choice([1.0, 5.0, 30.0, 120.0]))
    return world


def newcomers(seed: int) -> list[Pod]:
    """The gang that somebody thinks of submitting there; no pods of it exist yet."""
    chance = Random(-1 - seed)
    count = chance.randint(1, 5)
    return a_gang_of_pods(
        "newcomer",
        count,
        quorum=chance.choice([count, max(1, count - 1), 1]),
        namespace=chance.choice(NAMESPACES),
        wish=a_wish(chance),
        gpu=chance.choice([1, 1, 2, 4]),
        priority=chance.choice(PRIORITIES),
        preempts=chance.random() < 0.9,
    )


def _come(world: World, chance: Random, number: int) -> None:
    name, namespace = f"g{number}", chance.choice(NAMESPACES)
    count, gpu, priority = chance.randint(1, 4), chance.choice([1, 1, 2, 4]), chance.choice(PRIORITIES)
    kind = chance.choice(["", "", "ReplicaSet", "Job"])
    if not kind:
        pods = a_gang_of_pods(
            name, count, namespace=namespace, wish=a_wish(chance), gpu=gpu, priority=priority
        )
        world.submit(pods)
        return
    owner, said = an_owner(kind, name), a_membership(name, count, namespace=namespace, **a_wish(chance))

    def template(pod: str) -> Pod:
        return a_pod(pod, namespace=namespace, membership=said, owner=owner, gpu=gpu, priority=priority)

    world.control(Controller(owner, count, template, namespace=namespace))


def _end(world: World, chance: Random) -> None:
    """One of the gangs that run is deleted, with whoever makes its pods."""
    running = sorted({_gang(pod) for pod in world.api.pods.values() if pod.phase is Phase.RUNNING})
    if not running:
        return
    gone = chance.choice(running)
    for pod in [pod for pod in world.api.pods.values() if _gang(pod) == gone]:
        if pod.owner is not None:
            world.api.uncontrol(pod.owner)
        world.api.delete(pod.key)


def _gang(pod: Pod) -> tuple[str, str]:
    return (pod.key.namespace, pod.membership.gang.name if pod.membership is not None else pod.key.name)


def thought_of(pods: Sequence[Pod], now: float) -> list[Pod]:
    """The pods as if they had just come."""
    return [replace(pod, created=now) for pod in pods]
