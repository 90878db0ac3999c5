"""The settings file, read again when it changes: what of the policy may change while we run does.

Lives here: when the file is read, and what may differ. Never here: what a setting means. A file that cannot be used
changes nothing and is told in the log, with the line; so is a change that takes a new start.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Final, Never

import structlog

from scheduler.engine import Engine
from scheduler.errors import SettingsError
from scheduler.model.effects import Effect
from scheduler.model.policy import Policy
from scheduler.settings import Queue, Settings

EVERY: Final = 5.0
"""Seconds between two looks at the file: kubelet brings a changed ConfigMap about a minute later anyway."""

RELOADED: Final = frozenset(field.name for field in fields(Queue))
"""What of the policy may change at any time: all that the section `queue` says."""

Read = Callable[[], Settings]
Stamp = Callable[[], object]
"""Something that differs when the file does."""

_log = structlog.get_logger("settings")


async def keep_reading(
    engine: Engine,
    read: Read,
    stamp: Stamp,
    clock: Callable[[], float],
    submit: Callable[[list[Effect]], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Never:
    """Look at the file until cancelled."""
    seen = stamp()
    while True:
        await sleep(EVERY)
        now = stamp()
        if now != seen:
            seen = now
            submit(reread(engine, read, clock()))


def reread(engine: Engine, read: Read, now: float) -> list[Effect]:
    """Take over what the file says now; returns what follows from it."""
    try:
        wanted = read().policy
    except SettingsError as error:
        _log.error("settings not taken over", message=str(error))
        return []
    current = engine.policy
    names = {f.name for f in fields(Policy) if getattr(wanted, f.name) != getattr(current, f.name)}
    if stuck := names - RELOADED:
        _log.warning("settings that take a new start", settings=sorted(stuck))
    changed = {name: getattr(wanted, name) for name in names & RELOADED}
    if not changed:
        return []
    _log.info("settings taken over", settings=sorted(changed))
    return engine.adopt(replace(current, **changed), now)
