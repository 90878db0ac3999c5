"""The settings of the status service that contradict each other, or would send tokens in the clear."""

import pytest

from scheduler.errors import SettingsError
from scheduler.settings_loader import load

WRONG = {
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


@pytest.mark.parametrize(("flags", "named"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(flags, named):
    """The start is refused, with the setting and what would be right."""
    with pytest.raises(SettingsError) as told:
        load(environ={}, flags=flags)

    assert told.value.field.startswith(named)


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
def test_right_settings_are_taken(flags, taken):
    """Loopback of either family, TLS on any address, or no status service at all."""
    own = load(environ={}, flags=flags).status

    assert {name: getattr(own, name) for name in taken} == taken
