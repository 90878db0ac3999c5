"""The settings of the rendezvous that contradict each other, or would lose workers for nothing."""

import dataclasses

import pytest

from scheduler.elastic.agent.heartbeat import LATE
from scheduler.elastic.agent.master_client import BEAT
from scheduler.elastic.agent.retry import Backoff
from scheduler.errors import SettingsError
from scheduler.settings import Settings
from scheduler.settings_loader import check, load

TLS = {"rendezvous.cert": "tls.crt", "rendezvous.key": "tls.key"}
WRONG = {
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


@pytest.mark.parametrize(("flags", "named"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(flags, named):
    """The start is refused, with the setting and what would be right."""
    with pytest.raises(SettingsError) as told:
        load(environ={}, flags=flags)

    assert told.value.field.startswith(named)
    assert told.value.remedy


@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        (
            TLS | {"rendezvous.ca": "ca.crt", "rendezvous.secret": '""'},
            {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt", "secret": ""},
        ),
        (
            {"rendezvous.folder": "/var/lib/gangwright", "rendezvous.secret": '""'},
            {"folder": "/var/lib/gangwright", "secret": ""},
        ),
        ({"rendezvous.port": "0", "probes.port": "0"}, {"port": 0}),
        (
            {"rendezvous.names": "[10.0.0.7, '::1', rendezvous.example.com]"},
            {"names": ("10.0.0.7", "::1", "rendezvous.example.com")},
        ),
    ],
)
def test_right_settings_are_taken(flags, taken):
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


def test_a_silence_without_time_for_three_beats_is_explained():
    """The error says what the bound follows from."""
    with pytest.raises(SettingsError, match=rf"at least 5s, as an agent gives up a beat after {BEAT:g} s"):
        load(environ={}, flags={"rendezvous.silentAfter": "4s"})


def _accepted(beat, silent):
    settings = Settings()
    own = dataclasses.replace(settings.rendezvous, beat=beat, silent_after=silent)
    try:
        check(dataclasses.replace(settings, rendezvous=own))
    except SettingsError:
        return False
    return True
