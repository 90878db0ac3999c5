"""The forecast, repeated in the background while gangs wait.

It runs on a thread, on a snapshot that does not change. The longer a forecast took, the longer the pause after it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Never

import structlog

from scheduler.engine import Engine
from scheduler.engine.explanation import foresee

EVERY: Final = 10.0
"""Minimum seconds between two forecasts. Users look at one for longer."""

SHARE: Final = 0.05
"""Maximum share of time for forecasts: the thread and the extender endpoints share one interpreter."""

_log = structlog.get_logger("foresight")


async def keep_foreseeing(
    engine: Engine,
    clock: Callable[[], float],
    took: Callable[[float], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Forecast until canceled. `took` receives the seconds of each forecast. A forecast that fails is logged."""
    while True:
        seconds = await _once(engine, clock)
        took(seconds)
        await sleep(max(EVERY, seconds / SHARE))


async def _once(engine: Engine, clock: Callable[[], float]) -> float:
    began = clock()
    if not engine.ledger.ready or not len(engine.ledger.pending):
        engine.forecasts.took({}, began)
        return 0.0
    seen = engine.outlook(began)
    try:
        starts = await asyncio.to_thread(foresee, seen)
    except Exception:  # noqa: BLE001 - a forecast is optional: scheduling goes on without it
        _log.exception("forecast failed", gangs=len(seen.waiting), kind=("forecast failed",))
        starts = {}
    engine.forecasts.took(starts, began)
    engine.forecasts.forget(engine.still_to_start())
    return clock() - began
