"""`gangwright serve` and `elastic`: programs that run until they are stopped.

Lives here: their settings and signals, and how they end. Never here: what they do. Each is loaded by its own command.
"""

import asyncio
import json
import signal
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import structlog
import typer

from scheduler.errors import SettingsError, first_of
from scheduler.settings import Settings, load
from scheduler.telemetry import log

SettingsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Settings file. Defaults to no file; extender_config/settings.yaml lists all."),
]
Flags: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Setting that overrides file and environment, for example probes.port=0. Repeatable.",
    ),
]

_log = structlog.get_logger("serve")


def serve(settings: SettingsFile = None, set_: Flags = None) -> None:
    """Run the extender: plan gangs and answer kube-scheduler.

    It prints one line of JSON with the addresses of the extender endpoints, probes and status API when they are open.
    """
    from scheduler.service.run import Source, run

    flags = flags_of(set_ or [])
    chosen, source = settings_of(settings, flags), None
    if settings is not None:
        read = partial(load, settings, flags=flags, warn=warn_of_removed)
        source = Source(read, lambda: _stamp(settings))
    asyncio.run(until_told(run(chosen, listening, source)))


def elastic(settings: SettingsFile = None, set_: Flags = None) -> None:
    """Run the master of ElasticJobs.

    It creates and deletes their workers, decides their sizes, and serves the rendezvous of workers. It prints one line
    of JSON with the addresses of rendezvous and probes when it holds the Lease and they are open.
    """
    from scheduler.elastic.controller.elastic_master import run

    chosen = settings_of(settings, flags_of(set_ or []))
    asyncio.run(until_told(run(chosen, listening)))


def flags_of(pairs: list[str]) -> dict[str, str]:
    """Settings by dotted name, from `NAME=VALUE`. Raises SettingsError."""
    flags = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError("--set", pair, "must be NAME=VALUE, for example --set probes.port=0")
        flags[name] = value
    return flags


def settings_of(file: Path | None, flags: Mapping[str, str]) -> Settings:
    """The settings in force. Configures the log and warns of removed settings. Raises SettingsError."""
    told: list[str] = []
    chosen = load(file, flags=flags, warn=told.append)
    log.configure(chosen.log)
    for each in told:
        warn_of_removed(each)
    return chosen


def warn_of_removed(message: str) -> None:
    """Log a warning about a removed setting."""
    _log.warning("removed setting", message=message)


async def until_told(program: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT. Open requests are still answered. An error of one of its tasks is raised alone."""
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
        raise first_of(group) from group
    else:
        _log.info("the lease is lost; exiting, to be restarted")


def listening(places: Mapping[str, str]) -> None:
    """Report the addresses: one line of JSON to standard output, and one to the log."""
    print(json.dumps(places), flush=True)
    _log.info("listening", **places)


def _stamp(file: Path) -> object:
    """The version of a file. A mounted ConfigMap changes by a new link, so the link's target is part of it."""
    try:
        found = file.stat()
    except OSError:
        return None
    return (str(file.resolve()), found.st_mtime_ns, found.st_size)
