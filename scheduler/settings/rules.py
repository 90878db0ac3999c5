"""Settings that contradict each other.

Lives here: one row per contradiction. Never here: the checks of a single value, which belong to its kind.
"""

from collections.abc import Iterator

from scheduler.errors import SettingsError
from scheduler.settings.kinds import is_loopback
from scheduler.settings.sections import Settings
from scheduler.settings.sources import camel


def check(settings: Settings) -> None:
    """Raise SettingsError for the first rule that is broken."""
    for section, name, broken, remedy in _rules(settings):
        if broken:
            value = getattr(getattr(settings, section), name)
            raise SettingsError(f"{section}.{camel(name)}", value, remedy)


def _rules(s: Settings) -> Iterator[tuple[str, str, bool, str]]:
    """Section and name of the setting to change, whether the rule is broken, and the fix."""
    gangs, verbs, probes, status, meet = s.gangs, s.verbs, s.probes, s.status, s.rendezvous
    joined = s.aggregation
    levels = [level.name for level in s.cluster.levels]
    labels = [level.label for level in s.cluster.levels]
    yield "cluster", "levels", len({*levels}) < len(levels), "must have a different name for each level"
    yield "cluster", "levels", len({*labels}) < len(labels), "must have a different label for each level"
    yield "placement", "level", s.placement.level not in levels, "must be the name of one of cluster.levels"

    remedy = "must not be longer than gangs"
    yield "gangs", "backoff", gangs.backoff > gangs.backoff_limit, f"{remedy}.backoffLimit"
    yield "gangs", "pin_grace", gangs.pin_grace > gangs.pin_limit, f"{remedy}.pinLimit"

    public = "probes and metrics need no authentication"
    yield "probes", "port", probes.port == verbs.port != 0, f"must differ from verbs.port: {public}"
    yield "rendezvous", "port", meet.port == probes.port != 0, f"must differ from probes.port: {public}"
    taken = status.serve and status.port in {verbs.port, probes.port} - {0}
    yield "status", "port", taken, "must differ from verbs.port and probes.port: each has other clients"
    taken = joined.serve and joined.port in {verbs.port, probes.port, status.port * status.serve} - {0}
    yield "aggregation", "port", taken, "must differ from verbs.port, probes.port and status.port"
    broken = joined.serve and not (joined.cert or joined.secret)
    yield "aggregation", "secret", broken, "must be a name, unless aggregation.cert is set"

    pair = "aggregation.cert and aggregation.key"
    yield "aggregation", "cert", bool(joined.cert) != bool(joined.key), f"{pair} must be set together"
    for section, server in ("verbs", verbs), ("status", status):
        pair = f"{section}.cert and {section}.key"
        yield section, "cert", bool(server.cert) != bool(server.key), f"{pair} must be set together"
        broken = bool(server.client_ca) and not server.cert
        yield section, "client_ca", broken, f"requires {pair}: clients show certificates only over TLS"
    broken = bool(verbs.client_names) and not verbs.client_ca
    yield "verbs", "client_names", broken, "requires verbs.clientCa: without it clients show no name"
    listen = "listen on 127.0.0.1, or set"
    broken = not (verbs.client_ca or is_loopback(verbs.host))
    remedy = "clients of the extender endpoints can stop the scheduler"
    yield "verbs", "host", broken, f"{remedy}: {listen} verbs.cert, verbs.key and verbs.clientCa"
    broken = status.serve and not (status.cert or is_loopback(status.host))
    yield "status", "host", broken, f"clients send tokens to it: {listen} status.cert and status.key"

    broken = len({bool(meet.cert), bool(meet.key), bool(meet.ca)}) > 1
    remedy = "rendezvous.cert, rendezvous.key and rendezvous.ca must be set together: workers verify the master by the ca"
    yield "rendezvous", "cert", broken, remedy
    broken = not (meet.cert or meet.secret)
    remedy = "must be a name, unless rendezvous.cert is set"
    yield "rendezvous", "secret", broken, f"{remedy}: workers know the authority while they run"
    remedy = (
        "must be at least 5s, because an agent gives up a heartbeat after 1.5 s and needs time for two more, and at least "
        "3.5 times rendezvous.beat"
    )
    yield "rendezvous", "silent_after", meet.silent_after < max(5.0, 3.5 * meet.beat), remedy
    remedy = "must not be larger than rendezvous"
    yield "rendezvous", "value_limit", meet.value_limit > meet.body_limit, f"{remedy}.bodyLimit"
    broken = meet.round_limit > meet.values_limit
    yield "rendezvous", "round_limit", broken, f"{remedy}.valuesLimit, which covers all jobs"
