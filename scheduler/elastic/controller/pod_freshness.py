"""Whether pods are seen: the watches of them stand, or jobs are told that they do not.

Lives here: the look at the watches. Never here: what follows from it (`reconciler`), or when a watch stands
(`scheduler.kube.watch`).
Why the API server's other answers do not count: they come while pods alone are refused, throttled or too many to be
read in time. Then pods are made, and not seen; who took them for not made would make them again and again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Never

import structlog

from scheduler.clock import steady
from scheduler.elastic.controller.job_registry import PODS, Master
from scheduler.kube.watch import Reflector

LOOK: Final = 1.0
"""Seconds between two looks at the watches."""

TOLD_WITHIN: Final = 10.0
"""Seconds after which jobs have been told for certain, whatever else the event loop has to do."""

Watches = Mapping[str, Reflector[Any]]

_log = structlog.get_logger("elastic")


def seeing(watches: Watches, now: float) -> bool:
    """Every watch of pods stands: whoever is not known is nobody."""
    return all(watch.synced and not watch.blind_for(now) for watch in _pods(watches).values())


def blind(watches: Watches, now: float, after: float) -> dict[str, str]:
    """The watches of pods that have not stood for so many seconds, by name, and why."""
    return {
        name: _told(name, watch) for name, watch in _pods(watches).items() if watch.blind_for(now) > after
    }


async def keep_seeing(
    master: Master,
    watches: Watches,
    after: float,
    clock: Callable[[], float] = steady,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Tell the jobs, until cancelled. after: seconds without a watch that say nothing yet."""
    before: dict[str, str] = {}
    while True:
        now = blind(watches, clock(), after) if master.synced else {}
        for name in now.keys() - before.keys():
            _log.warning("pods are not seen: no worker is started", watch=name, error=now[name])
        for name in before.keys() - now.keys():
            _log.info("pods are seen again", watch=name)
        if now.keys() != before.keys():
            master.sight_turned(now)
        before = now
        await sleep(LOOK)


def _pods(watches: Watches) -> Watches:
    return {name: watch for name, watch in watches.items() if name.startswith(PODS)}


def _told(name: str, watch: Reflector[Any]) -> str:
    why = f" ({watch.fault})" if watch.fault is not None else ""
    return f"the watch of {name} does not stand{why}"
