"""The settings file, reloaded when it changes: the settings of the policy that may change at run time take effect.

Lives here: when the file is read, and which settings may change. Never here: the meaning of a setting. A file that
cannot be used changes nothing and is logged, with the line. A change that needs a restart is also logged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import Final, Never

import structlog

from scheduler.engine import Engine
from scheduler.errors import SettingsError
from scheduler.model.events import Event, PolicyChanged
from scheduler.model.policy import Policy
from scheduler.settings import Queue, Settings

EVERY: Final = 5.0
"""Seconds between two checks of the file. The kubelet updates a changed ConfigMap after about a minute anyway."""

RELOADED: Final = frozenset(field.name for field in fields(Queue))
"""Fields of the policy that may change at any time: all of the section `queue`."""

Read = Callable[[], Settings]
Stamp = Callable[[], object]
"""Returns a value that changes when the file does."""

_log = structlog.get_logger("settings")


async def keep_reading(
    engine: Engine,
    read: Read,
    stamp: Stamp,
    observe: Callable[[Sequence[Event]], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Watch the file until canceled. `observe` takes in a changed policy."""
    seen = stamp()
    while True:
        await sleep(EVERY)
        now = stamp()
        if now != seen:
            seen = now
            observe(reread(engine.policy, read))


def reread(current: Policy, read: Read) -> list[Event]:
    """What the current settings of the file change in this policy: one event or none."""
    try:
        wanted = read().policy
    except SettingsError as error:
        _log.error("settings not applied", message=str(error))
        return []
    names = {f.name for f in fields(Policy) if getattr(wanted, f.name) != getattr(current, f.name)}
    if stuck := names - RELOADED:
        _log.warning("changed settings need a restart", settings=sorted(stuck))
    changed = {name: getattr(wanted, name) for name in names & RELOADED}
    if not changed:
        return []
    _log.info("settings applied", settings=sorted(changed))
    return [PolicyChanged(replace(current, **changed))]
