"""Gangs about which kube-scheduler decides by rules that the planner does not model: no half of one stays for long."""

from dataclasses import replace

from scheduler.model.decision import Reason
from tests.engine.support.api import Controller
from tests.engine.support.cast import a_membership, a_pod, an_owner
from tests.engine.support.kube_scheduler import APART
from tests.engine.support.stage import a_world, seats
from tests.engine.support.world import World


def apart(
    world: World, name: str, count: int, *, kind: str = "ReplicaSet", namespace: str = "default"
) -> None:
    """A gang of which each member wants a node without any other pod of this kind."""
    owner, membership = an_owner(kind, name), a_membership(name, count, namespace=namespace)

    def template(pod: str):
        made = a_pod(pod, namespace=namespace, membership=membership, owner=owner, gpu=1)
        return replace(made, unmodeled=(APART,))

    world.control(Controller(owner, count, template, keeps_names=False, namespace=namespace))


def message(world: World, gang: str, reason: Reason) -> str:
    """What people were told of this gang last, for this reason."""
    return next(told.message for _, told in reversed(world.announced(gang)) if told.reason is reason)


def watched(world: World, *gangs: str) -> list[tuple[int, ...]]:
    """How many of each gang are bound, whenever a pod is bound or goes."""
    rows: list[tuple[int, ...]] = []

    def look(*_: object) -> None:
        row = tuple(seats(world, gang) for gang in gangs)
        rows.extend([row] if rows[-1:] != [row] else [])

    world.api.watched = look
    world.checked = look
    return rows


def test_of_two_gangs_that_need_all_nodes_one_runs_and_the_other_costs_nothing() -> None:
    """A Job's evicted pods count as failures, so none is evicted; the second goes when the first is done."""
    world = a_world(4, 4, 4, 4)
    apart(world, "a", 4, kind="Job")
    apart(world, "b", 4, kind="Job")
    rows = watched(world, "a", "b")
    world.settle(3000)
    assert (seats(world, "a"), seats(world, "b"), world.api.evicted) == (4, 0, [])
    assert not any(b for _, b in rows)
    assert "kube-scheduler reports for b-x1: no node suits the pod" in message(
        world, "b", Reason.INSUFFICIENT_RESOURCES
    )

    for pod in world.pods("a"):
        world.api.delete(pod.key)
    world.api.uncontrol(an_owner("Job", "a"))
    world.settle(2 * world.policy.barred)
    assert (seats(world, "b"), world.api.evicted) == (4, [])


def test_a_gang_that_can_never_be_whole_is_rolled_back_at_once_and_seldom_tried_again() -> None:
    """Four members, three nodes: what was bound goes within seconds, and the tries come to be minutes apart."""
    world = a_world(4, 4, 4)
    apart(world, "train", 4)
    world.settle(2)
    assert seats(world, "train") == 3
    world.settle(world.policy.pin_grace)
    assert (seats(world, "train"), len(world.api.evicted)) == (0, 3)
    world.settle(600)
    before = len(world.api.evicted)
    world.settle(2 * world.policy.backoff_limit)
    assert len(world.api.evicted) - before <= 2 * 3


def test_a_jobs_gang_that_cannot_be_whole_stays_and_says_why_and_no_other_is_torn_beside_it() -> None:
    """Its pods would count as failures. The gang that waits for it names it, and goes when it is gone."""
    world = a_world(4, 4, 4)
    apart(world, "train", 4, kind="Job")
    world.settle(30)
    apart(world, "next", 2)
    apart(world, "afar", 2, namespace="other")
    world.settle(150)
    assert (seats(world, "train"), seats(world, "next"), world.api.evicted) == (3, 0, [])
    text = message(world, "train", Reason.PARTIALLY_BOUND)
    assert "3 of 4 are bound" in text
    assert "kube-scheduler reports for train-x" in text
    assert "no node suits the pod" in text
    waits = f"train is still starting; gangs with {APART} start one at a time"
    assert message(world, "next", Reason.QUEUED).endswith(waits)
    assert "a gang in another namespace is still starting" in message(world, "afar", Reason.QUEUED)

    for pod in world.pods("train"):
        world.api.delete(pod.key)
    world.api.uncontrol(an_owner("Job", "train"))
    world.settle(5)
    assert seats(world, "next") == 2


def test_an_ordinary_gang_waits_for_no_such_gang() -> None:
    """What the planner sees whole is let go beside one that stands torn."""
    world = a_world(4, 4, 4)
    apart(world, "train", 4, kind="Job")
    world.settle(30)
    owner, membership = an_owner("ReplicaSet", "plain"), a_membership("plain", 2)
    world.control(Controller(owner, 2, lambda pod: a_pod(pod, membership=membership, owner=owner, gpu=1)))
    world.settle(5)
    assert (seats(world, "train"), seats(world, "plain")) == (3, 2)


def test_many_such_gangs_that_have_room_all_start_one_after_another() -> None:
    """Each waits only until the one before it is bound, also over a restart."""
    world = a_world(*[4] * 12)
    for number in range(6):
        apart(world, f"g{number}", 2)
    world.settle(1)
    world.crash()
    world.settle(30)
    assert [seats(world, f"g{number}") for number in range(6)] == [2] * 6
    assert world.api.evicted == []


def test_a_restart_knows_which_gang_stands_torn() -> None:
    """It is read off the pods: the second gang waits for it as before, and is not torn."""
    world = a_world(4, 4, 4)
    apart(world, "train", 4, kind="Job")
    world.settle(30)
    apart(world, "next", 2)
    world.crash()
    world.settle(60)
    assert (seats(world, "train"), seats(world, "next")) == (3, 0)
    assert world.record("next").verdict.decision.behind == world.record("train").key
