"""`gangwright serve`: the scheduler extender, beside a kube-scheduler."""

import asyncio
from functools import partial
from pathlib import Path

from scheduler.cli.daemon import (
    Flags,
    SettingsFile,
    flags_of,
    listening,
    settings_of,
    until_told,
    warn_of_removed,
)
from scheduler.service.run import Source, run
from scheduler.settings import load


def serve(settings: SettingsFile = None, set_: Flags = None) -> None:
    """Answer kube-scheduler's verbs, plan gangs, and write their seats.

    Prints one line of JSON with the addresses of verbs, probes and status once they are open.
    """
    flags = flags_of(set_ or [])
    chosen = settings_of(settings, flags)
    source = None
    if settings is not None:
        read = partial(load, settings, flags=flags, warn=warn_of_removed)
        source = Source(read, lambda: _stamp(settings))
    asyncio.run(until_told(run(chosen, listening, source)))


def _stamp(file: Path) -> object:
    """A mounted ConfigMap changes by a link that points elsewhere, so what it points to is part of it."""
    try:
        found = file.stat()
    except OSError:
        return None
    return (str(file.resolve()), found.st_mtime_ns, found.st_size)
