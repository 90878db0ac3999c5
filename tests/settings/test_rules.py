"""Rules between settings: what contradicts itself, sends tokens in the clear or loses workers for nothing is refused."""

import dataclasses

import pytest

from scheduler.elastic.agent.heartbeat import LATE
from scheduler.elastic.agent.master_client import BEAT
from scheduler.elastic.agent.retry import Backoff
from scheduler.errors import SettingsError
from scheduler.settings import Settings, load
from scheduler.settings.rules import check

MISTAKES = [
    ("placement:\n  level: row", r"placement\.level = 'row': must be the name of one of cluster\.levels"),
    (
        "cluster:\n  levels: [{name: rack, label: a}, {name: rack, label: b}]",
        r"cluster\.levels.*must have a different name for each level",
    ),
    (
        "cluster:\n  levels: [{name: rack, label: a}, {name: row, label: a}]",
        r"must have a different label for each level",
    ),
    ("gangs:\n  backoff: 10m", r"gangs\.backoff.*must not be longer than gangs\.backoffLimit"),
    ("gangs:\n  pinGrace: 10m", r"must not be longer than gangs\.pinLimit"),
    ("probes:\n  port: 10270", r"must differ from verbs\.port"),
    ("verbs:\n  cert: a.pem", r"verbs\.cert and verbs\.key must be set together"),
    ("verbs:\n  clientCa: a.pem", r"requires verbs\.cert and verbs\.key"),
    ("verbs:\n  clientNames: [a]", r"requires verbs\.clientCa"),
    ("verbs:\n  host: 0.0.0.0", r"verbs\.host = '0\.0\.0\.0'.*listen on 127\.0\.0\.1, or set"),
    ("verbs:\n  host: ''", r"verbs\.host = ''.*listen on 127\.0\.0\.1, or set"),
    ("verbs: {host: 0.0.0.0, cert: a, key: b}", r"verbs\.clientCa"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[text[:40] for text, _ in MISTAKES])
def test_a_contradiction_is_told(written, text, said):
    """The setting to change is named, with its value and the remedy."""
    with pytest.raises(SettingsError, match=said):
        written(text)


def test_mutual_tls_may_listen_anywhere(written):
    """A server that asks for certificates may be reached from the network."""
    settings = written("verbs: {host: 0.0.0.0, cert: a, key: b, clientCa: c, clientNames: [kube-scheduler]}")

    assert settings.verbs.client_names == ("kube-scheduler",)


STATUS = {
    "another address without TLS": ({"status.host": "0.0.0.0"}, "status.host"),
    "every address without TLS": ({"status.host": ""}, "status.host"),
    "a name that may be any address": ({"status.host": "example.com"}, "status.host"),
    "the verbs' port": ({"status.port": "10270"}, "status.port"),
    "the probes' port": ({"status.port": "10271"}, "status.port"),
    "a certificate without its key": ({"status.cert": "tls.crt"}, "status.cert"),
    "an authority without TLS": ({"status.clientCa": "ca.crt"}, "status.clientCa"),
    "an audience of two words": ({"status.audiences": "[two words]"}, "status.audiences"),
    "a memory without end": ({"status.remember": "24h"}, "status.remember"),
}

TLS = {"rendezvous.cert": "tls.crt", "rendezvous.key": "tls.key"}
RENDEZVOUS = {
    "the probes' port": ({"rendezvous.port": "10271"}, "rendezvous.port"),
    "a certificate without its key": ({"rendezvous.cert": "tls.crt", "rendezvous.ca": "ca.crt"}, "rendezvous.cert"),
    "a certificate without its authority": (TLS, "rendezvous.cert"),
    "no place for our own": ({"rendezvous.secret": '""'}, "rendezvous.secret"),
    "a silence that leaves no time for another beat": (
        {"rendezvous.beat": "100ms", "rendezvous.silentAfter": "4s"}, "rendezvous.silentAfter",
    ),
    "a silence of one beat": ({"rendezvous.beat": "5s"}, "rendezvous.silentAfter"),
    "values larger than bodies": ({"rendezvous.valueLimit": "2Mi"}, "rendezvous.valueLimit"),
    "a round larger than all": ({"rendezvous.roundLimit": "256Mi"}, "rendezvous.roundLimit"),
    "no name": ({"rendezvous.names": "[]"}, "rendezvous.names"),
    "an address for a name": ({"rendezvous.names": "['https://a']"}, "rendezvous.names"),
    "an audience of two words": ({"rendezvous.audience": "two words"}, "rendezvous.audience"),
    "a token believed for an hour": ({"rendezvous.remember": "1h"}, "rendezvous.remember"),
    "a short queue": ({"rendezvous.backlog": "5"}, "rendezvous.backlog"),
    "a Secret of capitals": ({"rendezvous.secret": "TLS"}, "rendezvous.secret"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "named"), [*STATUS.values(), *RENDEZVOUS.values()], ids=[*STATUS, *RENDEZVOUS]
)
def test_wrong_settings_of_servers_are_named(flags, named):
    """The start is refused, with the setting and what would be right."""
    with pytest.raises(SettingsError) as told:
        load(environ={}, flags=flags)

    assert told.value.field.startswith(named)
    assert told.value.remedy


@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        ({"status.host": "::1"}, {"host": "::1"}),
        (
            {"status.host": "0.0.0.0", "status.cert": "tls.crt", "status.key": "tls.key"},
            {"host": "0.0.0.0", "cert": "tls.crt", "key": "tls.key"},
        ),
        ({"status.host": "0.0.0.0", "status.serve": "false"}, {"host": "0.0.0.0", "serve": False}),
        ({"status.port": "0", "verbs.port": "0", "probes.port": "0"}, {"port": 0}),
    ],
)
def test_right_settings_of_the_status_service_are_taken(flags, taken):
    """Loopback of either family, TLS on any address, or no status service at all."""
    own = load(environ={}, flags=flags).status

    assert {name: getattr(own, name) for name in taken} == taken


@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        (
            TLS | {"rendezvous.ca": "ca.crt", "rendezvous.secret": '""'},
            {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt", "secret": ""},
        ),
        ({"rendezvous.port": "0", "probes.port": "0"}, {"port": 0}),
        (
            {"rendezvous.names": "[10.0.0.7, '::1', rendezvous.example.com]"},
            {"names": ("10.0.0.7", "::1", "rendezvous.example.com")},
        ),
    ],
)
def test_right_settings_of_the_rendezvous_are_taken(flags, taken):
    """A certificate with its authority, a folder instead of the Secret, any free port, names and addresses."""
    own = load(environ={}, flags=flags).rendezvous

    assert {name: getattr(own, name) for name in taken} == taken


@pytest.mark.parametrize("silent", [5.0, 10.0, 600.0])
def test_an_unanswered_beat_leaves_time_for_two_more(silent):
    """The agent waits for its turn, gives a beat up, and sends another, twice: whatever the settings are."""
    load(environ={}, flags={"rendezvous.silentAfter": f"{silent:g}s"})
    backoff = Backoff()
    accepted = [beat / 1000 for beat in range(100, 60_001) if _accepted(beat / 1000, silent)]
    tries = 2 * BEAT + backoff.pause() + backoff.pause()

    assert LATE * max(accepted) + tries < silent


def _accepted(beat, silent):
    settings = Settings()
    own = dataclasses.replace(settings.rendezvous, beat=beat, silent_after=silent)
    try:
        check(dataclasses.replace(settings, rendezvous=own))
    except SettingsError:
        return False
    return True


def test_a_silence_without_time_for_three_beats_is_explained():
    """The error says what the bound follows from."""
    with pytest.raises(
        SettingsError, match=rf"at least 5s, because an agent gives up a heartbeat after {BEAT:g} s"
    ):
        load(environ={}, flags={"rendezvous.silentAfter": "4s"})
