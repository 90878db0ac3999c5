"""The forecast, made again and again in the background while gangs wait.

It works on a thread, on a picture that does not change; a forecast that took long is followed by a longer rest.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Never

import structlog

from scheduler.engine import Engine
from scheduler.engine.explanation import foresee

EVERY: Final = 10.0
"""Seconds between two forecasts at least; people look at one for longer."""

SHARE: Final = 0.05
"""Of all time, how much may go into forecasts: the thread and the verbs share one interpreter."""

_log = structlog.get_logger("foresight")


async def keep_foreseeing(
    engine: Engine,
    clock: Callable[[], float],
    took: Callable[[float], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Forecast until cancelled; `took` is told how long each took. A forecast that fails is missing, and said in the
    log.
    """
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
    except Exception:  # noqa: BLE001 - a forecast is a courtesy: whatever it fails at, gangs are placed
        _log.exception("forecast failed", gangs=len(seen.waiting), kind=("forecast failed",))
        starts = {}
    engine.forecasts.took(starts, began)
    engine.forecasts.forget(engine.still_to_start())
    return clock() - began
