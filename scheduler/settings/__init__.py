"""All settings by concern, each with its meaning, its unit, and the reason for its default.

Lives here: frozen dataclasses, and `load`, which fills them once. Flags override environment variables, which override
the YAML file. Never here: a use of any setting. The core sees only `Policy`, which is created here.

In YAML a setting is `section.settingName`. In the environment it is GANGWRIGHT_SECTION__SETTING_NAME, with a value as
in YAML. `extender_config/settings.yaml` is this package as YAML, with every default.
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
"""The name in errors of a text that does not come from a file."""


def load(
    file: str | Path | None = None,
    *,
    text: str = "",
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Settings:
    """The settings in force: defaults < file < environment < flags.

    text: the content of a file. flags: YAML texts by dotted name, for example {"verbs.port": "0"}. warn: called for
    each value of `sources.REMOVED`. Raises SettingsError, which names the setting, its source and the fix.
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
