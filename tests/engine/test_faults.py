"""A gang that cannot be asked about, or whose answer cannot be taken, stops no other gang."""

import pytest

from scheduler.engine import Engine, Fault, cycle
from scheduler.ledger.fault_isolation import broke
from scheduler.model import events as ev
from scheduler.model.policy import Policy
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.world import World
from tests.support.builders import a_node


@pytest.mark.parametrize("step", ["about", "about_room", "_taken"])
def test_the_gangs_behind_it_are_seated(monkeypatch, faults, step) -> None:
    """Whether the question cannot be put, or its answer cannot be taken."""
    real = getattr(cycle.PlanningCycle, step)

    def poisoned(self, first, *args, **named):
        gang = first.gang.key if step == "_taken" else first.key
        if gang.name == "poison":
            raise ZeroDivisionError(step)
        return real(self, first, *args, **named)

    monkeypatch.setattr(cycle.PlanningCycle, step, poisoned)
    world = World([a_node("n1", gpu=8), a_node("n2", gpu=8)])
    world.steal("n2", gpu=8)

    world.submit([*a_gang_of_pods("poison", 2, gpu=8), *a_gang_of_pods("well", 2, gpu=4)])
    world.settle(3)

    assert len(world.bound("well")) == 2
    assert {fault.gang.name for fault in faults} == {"poison"}
    faults.clear()


def test_a_gang_on_which_the_planner_fails_is_asked_about_later_and_later(faults) -> None:
    """However well it looks in between: after 5 s, 10 s, 20 s …; a fault after a long time without one is a first one."""
    engine, moments, now = Engine(Policy()), [], 0.0
    gang = a_gang_of_pods("bad", 2)
    engine.observe(
        [ev.NodeSeen(a_node("n1", gpu=4)), *map(ev.PodSeen, gang), ev.Synced(), ev.TookOver()], now
    )
    while now < 160:
        if (question := engine.ask(now)) is not None:
            engine.settle(question, Fault(ZeroDivisionError()), now)
            moments.append(now)
        now = max(now, engine.next_deadline())
        engine.observe([ev.Tick()], now)

    assert moments == [0, 5, 15, 35, 75, 155]
    assert [fault.again for fault in faults] == [False] + 5 * [True]
    broke(engine.ledger, gang[0].membership.gang, ZeroDivisionError(), now + 1000)
    assert not faults[-1].again
    faults.clear()
