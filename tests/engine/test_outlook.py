"""What a forecast is made from."""

import pytest

from tests.engine.cast import a_gang_of_pods
from tests.engine.stage import a_world

HOUR = 3600.0


def test_decisions_take_declarations_at_their_word_and_forecasts_take_them_for_too_long() -> None:
    """Of who runs, from when it began; of who waits, as a span. An hour that nobody has kept yet is likely to be 48
    minutes.
    """
    world = a_world(4)
    for name in ("runs", "waits"):
        world.submit(a_gang_of_pods(name, 4, gpu=1, wish={"runtime": HOUR}))
        world.settle(10.0)
    began = world.record("runs").since
    assert began is not None

    seen = world.engine.outlook(world.now)

    (stay,), (waiting,) = seen.stays, seen.waiting
    assert stay.likely is not None
    assert waiting.runs is not None
    assert waiting.likely is not None
    assert (stay.ends.middle, stay.likely.middle) == pytest.approx((began + HOUR, began + 0.8 * HOUR))
    assert (waiting.runs.middle, waiting.likely.middle) == pytest.approx((HOUR, 0.8 * HOUR))
