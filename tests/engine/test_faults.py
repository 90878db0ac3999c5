"""A gang that cannot be asked about, or whose answer cannot be taken, stops no other gang."""

import pytest

from scheduler.engine import asking
from tests.builders import a_node
from tests.engine.cast import a_gang_of_pods
from tests.engine.world import World


@pytest.mark.parametrize("step", ["about", "about_room", "_taken"])
def test_the_gangs_behind_it_are_seated(monkeypatch, faults, step) -> None:
    """Whether the question cannot be put, or its answer cannot be taken."""
    real = getattr(asking.Asking, step)

    def poisoned(self, first, *args, **named):
        gang = first.gang.key if step == "_taken" else first.key
        if gang.name == "poison":
            raise ZeroDivisionError(step)
        return real(self, first, *args, **named)

    monkeypatch.setattr(asking.Asking, step, poisoned)
    world = World([a_node("n1", gpu=8), a_node("n2", gpu=8)])
    world.steal("n2", gpu=8)

    world.submit([*a_gang_of_pods("poison", 2, gpu=8), *a_gang_of_pods("well", 2, gpu=4)])
    world.settle(3)

    assert len(world.bound("well")) == 2
    assert {fault.gang.name for fault in faults} == {"poison"}
    faults.clear()
