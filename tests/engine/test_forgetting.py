"""What is remembered of gangs that are gone: on a full cluster, where for weeks nobody leaves, no more after a thousand
of them than after a few.
"""

from scheduler.engine import equivalence as shapes_module
from scheduler.engine import preemption_candidates
from scheduler.engine.equivalence import Shapes
from scheduler.model.decision import Reason, Wait
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_world
from tests.engine.support.world import World
from tests.support.builders import a_gang

FENCES = 4
"""None and the newest, each for those who are short of it and for those who are not."""


def a_full_cluster() -> World:
    """One node, all of which is used for long, and a gang that waits for it."""
    world = a_world(4)
    world.submit(a_gang_of_pods("runs", 4, gpu=1, priority=100, wish={"runtime": 1e6}))
    world.settle(1.0)
    world.submit(a_gang_of_pods("waits", 1, gpu=1))
    world.settle(1.0)
    return world


def comes_and_goes(world: World, name: str) -> None:
    """Somebody who goes before all others waits for a while, and is taken back."""
    pods = world.submit(a_gang_of_pods(name, 1, gpu=2, priority=5, wish={"runtime": 10.0}))
    world.settle(2.0)
    for pod in pods:
        world.api.remove(pod.key)
    world.settle(2.0)


def test_answers_under_reservations_of_the_past_are_forgotten() -> None:
    """Each gang that comes first has room reserved, and so has who was first before it when it is gone."""
    world = a_full_cluster()
    for number in range(12):
        comes_and_goes(world, f"first-{number}")
    assert len(world.engine.cycle._shapes._answers) <= FENCES


def test_an_answer_that_comes_late_takes_none_away() -> None:
    """It was asked for under a reservation that is no more."""
    shapes, wait = Shapes(), Wait(Reason.INSUFFICIENT_RESOURCES)
    shapes.answers((1, 1), 2)[0].alike[7] = wait
    shapes.answers((1, 1), 1)[0].alike[8] = wait
    shapes.answers((1, 1), 0)[0].alike[9] = wait
    assert shapes.answers((1, 1), 2)[0].alike == {7: wait}
    shapes.answers((1, 1), 3)
    assert [shapes.answers((1, 1), fence)[0].alike for fence in (2, 1, 0)] == [{}, {}, {9: wait}]


def test_answers_to_shapes_long_past_are_forgotten(monkeypatch) -> None:
    """With the numbers of shapes go the answers that were kept by them."""
    monkeypatch.setattr(shapes_module, "KEPT", 4)
    shapes = Shapes()
    for cpu in range(50):
        number = shapes.number(a_gang(cpu=1 + cpu))
        shapes.answers((1, 1), 0)[0].alike[number] = Wait(Reason.INSUFFICIENT_RESOURCES)
    assert len(shapes.answers((1, 1), 0)[0].alike) <= 4
    assert len(shapes.sizes) <= 4


def test_as_many_shapes_are_kept_as_wait(monkeypatch) -> None:
    """A queue of gangs that are all unlike is answered by shape, however few are kept otherwise."""
    monkeypatch.setattr(shapes_module, "KEPT", 4)
    shapes = Shapes()
    for _ in range(2):
        numbers = {shapes.number(a_gang(cpu=1 + cpu), 20) for cpu in range(20)}
    assert numbers == set(range(20))


def test_what_was_made_of_gangs_goes_with_them(monkeypatch) -> None:
    """A view holds all pods of its gang: few are kept of gangs that are gone."""
    monkeypatch.setattr(preemption_candidates, "SPARE", 4)
    world = a_full_cluster()
    for number in range(20):
        world.submit(a_gang_of_pods(f"seated-{number}", 1, gpu=0, cpu=1, wish={"runtime": 1e6}))
        comes_and_goes(world, f"first-{number}")
        world.api.remove(world.pods(f"seated-{number}")[0].key)
    kept = world.engine.cycle.candidates._views
    assert 0 < len(kept) <= len(world.engine.ledger.registry.gangs) + 4


def test_kinds_for_whom_nobody_leaves_are_forgotten(monkeypatch) -> None:
    """Gangs of ever other namespaces for which nobody could make room; each is asked about as before."""
    monkeypatch.setattr(shapes_module, "KINDS", 4)
    world = a_full_cluster()
    world.submit(a_gang_of_pods("low", 1, gpu=0, priority=-5))
    world.settle(1.0)
    for number in range(12):
        comes_and_goes(world, f"first-{number}")
        assert 0 < len(world.engine.cycle._shapes._no_room) <= 5
