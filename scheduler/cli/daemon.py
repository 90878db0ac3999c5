"""A program that runs until it is told to stop: `serve` and `elastic`."""

import asyncio
import json
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import structlog
import typer

from scheduler.errors import SettingsError
from scheduler.settings import Settings, load
from scheduler.telemetry import log

SettingsFile: TypeAlias = Annotated[
    Path | None, typer.Option(help="Settings file; see extender_config/settings.yaml for all of them.")
]
Flags: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="One setting, e.g. probes.port=0; stronger than file and environment.",
    ),
]

_log = structlog.get_logger("serve")


def flags_of(pairs: list[str]) -> dict[str, str]:
    """Settings by dotted name, from `NAME=VALUE`. Raises SettingsError."""
    flags = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError("--set", pair, "must be NAME=VALUE, e.g. --set probes.port=0")
        flags[name] = value
    return flags


def settings_of(file: Path | None, flags: Mapping[str, str]) -> Settings:
    """The settings in force, and the log set up by them; it tells what of them was removed. Raises SettingsError."""
    told: list[str] = []
    chosen = load(file, flags=flags, warn=told.append)
    log.configure(chosen.log)
    for each in told:
        warn_of_removed(each)
    return chosen


def warn_of_removed(message: str) -> None:
    """A setting that is in force says something that was removed."""
    _log.warning("removed setting", message=message)


async def until_told(program: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT; what is under way is still answered. An error of a task of it is raised alone."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    told = False

    def stop() -> None:
        nonlocal told
        told = True
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await program
    except asyncio.CancelledError:
        if not told:
            raise
        _log.info("stopped")
    except ExceptionGroup as group:
        raise _first(group) from group
    else:
        _log.info("the lease is lost: ending, to be started afresh")


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """What went wrong first; the rest are tasks that fell with it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def listening(places: Mapping[str, str]) -> None:
    """Say where it listens: one line of JSON to standard output, and one to the log."""
    print(json.dumps(places), flush=True)
    _log.info("listening", **places)
