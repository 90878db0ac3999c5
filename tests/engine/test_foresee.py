"""What a forecast is made from."""

from dataclasses import replace

import pytest

from scheduler.engine.explanation import foresee
from scheduler.model.events import PodSeen
from scheduler.model.policy import Policy
from scheduler.model.queueing import Share
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.stage import a_world
from tests.support.builders import GPU

HOUR = 3600.0


def test_decisions_take_declarations_at_their_word_and_forecasts_take_them_for_too_long() -> None:
    """Of who runs, from when it began; of who waits, as a span. An hour that nobody has kept yet is likely to be 48
    minutes.
    """
    world = a_world(4)
    for name in ("runs", "waits"):
        world.submit(a_gang_of_pods(name, 4, gpu=1, wish={"runtime": HOUR}))
        world.settle(10.0)
    began = world.record("runs").observed.since
    assert began is not None

    seen = world.engine.outlook(world.now)

    (stay,), (waiting,) = seen.stays, seen.waiting
    assert stay.likely is not None
    assert waiting.runs is not None
    assert waiting.likely is not None
    assert (stay.ends.middle, stay.likely.middle) == pytest.approx((began + HOUR, began + 0.8 * HOUR))
    assert (waiting.runs.middle, waiting.likely.middle) == pytest.approx((HOUR, 0.8 * HOUR))


def test_a_forecast_knows_what_namespaces_use_and_leaves_out_who_waits_in_vain() -> None:
    """Above its ceiling alone, or too large for the cluster: no time. At its ceiling: when its own have left."""
    shares = {"team": Share(ceiling=((GPU, 4),))}
    world = a_world(8, policy=Policy(shares=shares, default_runtime=HOUR))
    world.submit(a_gang_of_pods("runs", 4, namespace="team", gpu=1, wish={"runtime": HOUR}))
    world.settle(10.0)
    world.submit(a_gang_of_pods("greedy", 5, namespace="team", gpu=1))
    world.submit(a_gang_of_pods("huge", 9, gpu=1))
    world.submit(a_gang_of_pods("capped", 2, namespace="team", gpu=1))
    world.settle(10.0)

    seen = world.engine.outlook(world.now)
    starts = foresee(seen)

    assert [one.gang.key.name for one in seen.waiting] == ["capped"]
    ((key, start),) = starts.items()
    assert key.name == "capped"
    assert start.low > world.now + 0.3 * HOUR


def test_a_pod_of_another_scheduler_counts_for_no_ceiling() -> None:
    """It leaves, and what its namespace may use through us is as much as before."""
    world = a_world(8, policy=Policy(shares={"default": Share(ceiling=((GPU, 4),))}))
    stranger = world.steal("n0", gpu=2)
    world.tell([PodSeen(replace(stranger, deleting=True))])

    (stay,) = world.engine.outlook(world.now).stays

    assert stay.namespace == ""
