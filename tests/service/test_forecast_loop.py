"""Forecasts in the background."""

from dataclasses import replace

import pytest

from scheduler.engine import Engine
from scheduler.engine.explanation import Forecasts
from scheduler.model import events as ev
from scheduler.model.cluster import Node
from scheduler.model.policy import Policy
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey
from scheduler.service import forecast_loop
from tests.engine.support.cast import a_gang_of_pods


class EnoughError(Exception):
    pass


@pytest.fixture
def engine() -> Engine:
    """A node with room for one of two gangs; the first runs."""
    engine = Engine(Policy())
    node = ev.NodeSeen(Node("n", (("nvidia.com/gpu", 2), ("pods", 110))))
    engine.observe([node, ev.Synced(), ev.TookOver()], 0.0)
    for name in ("first", "second"):
        engine.observe([ev.PodSeen(pod) for pod in a_gang_of_pods(name, 2, gpu=1)], 0.0)
        engine.plan(0.0)
    return engine


async def once(engine: Engine) -> list[float]:
    """What the times of one forecast were."""
    took: list[float] = []

    async def sleep(_seconds: float) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        await forecast_loop.keep_foreseeing(engine, lambda: 5.0, took.append, sleep)
    return took


async def test_who_waits_is_told_when_it_will_start(engine: Engine):
    """The second gang starts when the first is expected to end: an hour from its start, where nobody said more."""
    assert await once(engine) == [0.0]

    start = engine.forecasts.starts[GangKey("default", "second")]
    assert start.low <= start.middle <= start.high
    assert start.middle > 5.0


async def test_a_forecast_that_fails_is_missing_and_no_more(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    """Whatever it fails at is told in the log; the task goes on."""

    def fails(_seen: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(forecast_loop, "foresee", fails)

    await once(engine)

    assert engine.forecasts.starts == {}


def test_the_first_word_is_held_against_the_start():
    """A gang told at 10 that it starts at 30, and told better later, started at 20: twice as long as it was."""
    forecasts, key = Forecasts(), GangKey("team", "g")
    forecasts.took({key: Estimate(30.0, 20.0, 40.0)}, 10.0)
    forecasts.took({key: Estimate(21.0, 20.0, 22.0)}, 15.0)

    assert forecasts.started([(key, 20.0)]) == [2.0]
    assert forecasts.started([(key, 20.0)]) == []


async def test_what_a_gang_was_told_goes_with_its_start(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    """It begins while the forecast is made: what that says of it is no promise for another start, days later."""
    key = GangKey("default", "second")
    foresee = forecast_loop.foresee

    def meanwhile(seen):
        starts = foresee(seen)
        first, second = (a_gang_of_pods(name, 2, gpu=1) for name in ("first", "second"))
        engine.observe([ev.PodGone(pod.uid, pod.key) for pod in first], 5.0)
        engine.observe([ev.PodSeen(replace(pod, node="n", gated=False)) for pod in second], 5.0)
        engine.forecasts.started(
            engine.ledger.counters.starts
        )  # it was counted, by nothing that it had been told
        engine.ledger.counters.starts.clear()
        return starts

    monkeypatch.setattr(forecast_loop, "foresee", meanwhile)
    await once(engine)

    assert engine.forecasts.started([(key, 1000.0)]) == []
