"""Every setting, by concern: what it means, in which unit, and why its default is what it is.

Lives here: frozen dataclasses, and `load`, which fills them once, from a YAML file, below environment variables,
below flags. Never here: a use of any of them. The core sees only `Policy`, made here.

In YAML a setting is `section.settingName`; in the environment GANGWRIGHT_SECTION__SETTING_NAME, its value written
as in YAML. `extender_config/settings.yaml` is this package as YAML, with every default.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from scheduler.settings import rules, sources
from scheduler.settings.elastic_settings import Confinement, ElasticMaster, Reported, Workers
from scheduler.settings.scheduler_settings import Queue
from scheduler.settings.sections import NAMES, SECTIONS, Api, Log, LogFormat, LogLevel, Settings
from scheduler.settings.server_settings import (
    Aggregation,
    Probes,
    RendezvousServer,
    StatusServer,
    TLSServer,
    VerbsServer,
)

__all__ = [
    "Aggregation", "Api", "Confinement", "ElasticMaster", "Log", "LogFormat", "LogLevel", "Probes", "Queue",
    "RendezvousServer", "Reported", "Settings", "StatusServer", "TLSServer", "VerbsServer", "Workers", "load",
]  # fmt: skip

FILE: Final = "settings.yaml"
"""How errors name a text that is no file."""


def load(
    file: str | Path | None = None,
    *,
    text: str = "",
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Settings:
    """The settings in force: defaults < file < environment < flags.

    text: what a file would say. flags: YAML texts by dotted name, such as {"verbs.port": "0"}. warn: is told of each
    value of `sources.REMOVED`. Raises SettingsError, which names the setting, the place where it was given and what
    would be right.
    """
    path = Path(file) if file else None
    given = sources.from_text(sources.content_of(path) if path else text, path.name if path else FILE)
    given |= sources.from_environment(environ, NAMES)
    given |= sources.from_flags(flags or {})
    given = sources.known(given, NAMES.values(), warn)
    settings = Settings(**{name: sources.section_of(kind, name, given) for name, kind in SECTIONS.items()})
    rules.check(settings)
    hostname = settings.lease.hostname or environ.get("POD_NAME") or socket.gethostname()
    return replace(settings, lease=replace(settings.lease, hostname=hostname))
