"""The settings in force, read and checked.

Lives here: which source counts before which, one row for each contradiction between settings, and
one for each setting that was removed. Never here: what is wrong in a setting by itself; its own kind says that.
"""

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from scheduler import settings_reader as reader
from scheduler.errors import SettingsError
from scheduler.settings import NAMES, SECTIONS, Settings


@dataclass(frozen=True, slots=True)
class Rule:
    """Settings that contradict each other: which one to name, and what would be right."""

    setting: str
    broken: Callable[[Settings], bool]
    remedy: str


RULES: Final = (
    Rule(
        "cluster.levels",
        lambda s: len({level.name for level in s.cluster.levels}) < len(s.cluster.levels),
        "two levels must not have one name",
    ),
    Rule(
        "cluster.levels",
        lambda s: len({level.label for level in s.cluster.levels}) < len(s.cluster.levels),
        "two levels must not have one label",
    ),
    Rule(
        "placement.level",
        lambda s: s.placement.level not in {level.name for level in s.cluster.levels},
        "must be the name of one of cluster.levels",
    ),
    Rule(
        "gangs.backoff",
        lambda s: s.gangs.backoff > s.gangs.backoff_limit,
        "must not be longer than gangs.backoffLimit",
    ),
    Rule(
        "gangs.pinGrace",
        lambda s: s.gangs.pin_grace > s.gangs.pin_limit,
        "must not be longer than gangs.pinLimit",
    ),
    Rule(
        "probes.port",
        lambda s: s.probes.port == s.verbs.port != 0,
        "must differ from verbs.port: probes and metrics are for everybody, verbs are not",
    ),
    Rule(
        "status.port",
        lambda s: s.status.serve and s.status.port in {s.verbs.port, s.probes.port} - {0},
        "must differ from verbs.port and probes.port: each is for others",
    ),
    Rule(
        "status.cert",
        lambda s: bool(s.status.cert) != bool(s.status.key),
        "status.cert and status.key go together",
    ),
    Rule(
        "status.clientCa",
        lambda s: bool(s.status.client_ca) and not s.status.cert,
        "needs status.cert and status.key: a client's certificate is shown over TLS only",
    ),
    Rule(
        "status.host",
        lambda s: s.status.serve and not (s.status.cert or _loopback(s.status.host)),
        "tokens are sent to it: listen on 127.0.0.1, or set status.cert and status.key",
    ),
    Rule(
        "rendezvous.port",
        lambda s: s.rendezvous.port == s.probes.port != 0,
        "must differ from probes.port: probes and metrics are for everybody",
    ),
    Rule(
        "rendezvous.cert",
        lambda s: len({bool(s.rendezvous.cert), bool(s.rendezvous.key), bool(s.rendezvous.ca)}) > 1,
        "rendezvous.cert, rendezvous.key and rendezvous.ca go together: workers check us by the last",
    ),
    Rule(
        "rendezvous.secret",
        lambda s: not (s.rendezvous.cert or s.rendezvous.folder or s.rendezvous.secret),
        "must be a name, unless rendezvous.cert or rendezvous.folder is set: workers know the authority while they run",
    ),
    Rule(
        "rendezvous.silentAfter",
        lambda s: s.rendezvous.silent_after < max(5.0, 3.5 * s.rendezvous.beat),
        "must be at least 5s, as an agent gives up a beat after 1.5 s and needs time for two more, and 3.5 times rendezvous.beat",
    ),
    Rule(
        "rendezvous.valueLimit",
        lambda s: s.rendezvous.value_limit > s.rendezvous.body_limit,
        "must not be larger than rendezvous.bodyLimit",
    ),
    Rule(
        "rendezvous.roundLimit",
        lambda s: s.rendezvous.round_limit > s.rendezvous.values_limit,
        "must not be larger than rendezvous.valuesLimit, which is for all jobs",
    ),
    Rule(
        "verbs.cert",
        lambda s: bool(s.verbs.cert) != bool(s.verbs.key),
        "verbs.cert and verbs.key go together",
    ),
    Rule(
        "verbs.clientCa",
        lambda s: bool(s.verbs.client_ca) and not s.verbs.cert,
        "needs verbs.cert and verbs.key: a client's certificate is shown over TLS only",
    ),
    Rule(
        "verbs.clientNames",
        lambda s: bool(s.verbs.client_names) and not s.verbs.client_ca,
        "needs verbs.clientCa: without it no client shows a name",
    ),
    Rule(
        "verbs.host",
        lambda s: not (s.verbs.client_ca or _loopback(s.verbs.host)),
        "whoever reaches the verbs can stop the scheduler: listen on 127.0.0.1, or set verbs.cert, verbs.key and "
        "verbs.clientCa",
    ),
)
"""Checked in this order; the first that is broken is told."""


REMOVED: Final[tuple[reader.Removed, ...]] = (
    reader.Removed("placement.strategy", "dot was removed, and cosine is used: write that", "dot", "cosine"),
    reader.Removed("queue.overrun", "no gang is suspended for overrunning any more: remove it"),
)
"""What the version before this one read: it is read with a warning, and leaves this table with the next version."""


def check(settings: Settings) -> None:
    """Raises SettingsError for the first rule that is broken."""
    for rule in RULES:
        if rule.broken(settings):
            section, _, name = rule.setting.partition(".")
            holder = getattr(settings, section)
            value = next(getattr(holder, f.name) for f in fields(holder) if reader.camel(f.name) == name)
            raise SettingsError(rule.setting, value, rule.remedy)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(
    file: str | Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Settings:
    """The settings in force: defaults < file < environment < flags.

    flags: YAML texts by dotted name, such as {"verbs.port": "0"}. warn: is told of each value of REMOVED. Raises
    SettingsError, which names the setting, the place where it was given and what would be right.
    """
    given = reader.from_file(Path(file)) if file else {}
    gone = {row.variable: row.setting for row in REMOVED if row.word is None}
    given |= reader.from_environment(environ, {**NAMES, **gone})
    given |= reader.from_flags(flags or {})
    given = reader.replaced(given, REMOVED, warn)
    reader.check_known(given, dict.fromkeys(NAMES.values()))
    settings = Settings(**{name: reader.section_of(kind, name, given) for name, kind in SECTIONS.items()})
    check(settings)
    hostname = settings.lease.hostname or environ.get("POD_NAME") or socket.gethostname()
    return replace(settings, lease=replace(settings.lease, hostname=hostname))
