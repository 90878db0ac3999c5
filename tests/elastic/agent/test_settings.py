"""What the agent reads from its environment, and what it says when that is wrong."""

import pytest

from scheduler.elastic.agent.agent_errors import SettingsError
from scheduler.elastic.agent.agent_settings import Address, read

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

GOOD = {
    "GANGWRIGHT_MASTER": "https://gangwright-elastic.gangwright.svc:10443",
    "GANGWRIGHT_JOB": "team-a/resnet.large",
    "GANGWRIGHT_POD": "resnet-0-x1y2z",
    "GANGWRIGHT_POD_UID": "0b7c1f0e-27c4-4a5e-9d2d-3b3a4a5c9e10",
    "GANGWRIGHT_CA": CA,
}


def test_what_the_master_writes_is_read() -> None:
    """Address, identity and authority come from the environment; everything else has a default."""
    settings = read(GOOD)

    assert settings.master == Address("gangwright-elastic.gangwright.svc", 10443, secure=True)
    assert (settings.job, settings.pod) == ("team-a/resnet.large", "resnet-0-x1y2z")
    assert settings.ca == CA
    assert settings.token_file == "/var/run/secrets/gangwright/token"
    assert (settings.grace, settings.gloo_timeout, settings.prefix) == (30.0, 10.0, False)
    assert (settings.stopped_limit, settings.silent_limit) == (2.0, 60.0)


@pytest.mark.parametrize("name", GOOD)
def test_what_is_missing_is_named(name: str) -> None:
    """Each of the variables without a default is asked for by its name."""
    with pytest.raises(SettingsError, match=f"^{name} = '': is required and must be "):
        read({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GANGWRIGHT_MASTER", "gangwright:443"),
        ("GANGWRIGHT_MASTER", "https://gangwright"),
        ("GANGWRIGHT_MASTER", "https://user:word@gangwright:443"),
        ("GANGWRIGHT_MASTER", "https://gangwright:443/path"),
        ("GANGWRIGHT_MASTER", "https://gangwright:99999"),
        ("GANGWRIGHT_MASTER", "http://gangwright:80"),
        ("GANGWRIGHT_MASTER", "http://127.0.0.1:80"),
        ("GANGWRIGHT_JOB", "no-namespace"),
        ("GANGWRIGHT_JOB", "a/b/c"),
        ("GANGWRIGHT_POD", "two words"),
        ("GANGWRIGHT_POD", "line\nbreak"),
        ("GANGWRIGHT_POD_UID", ""),
        ("GANGWRIGHT_CA", "not a certificate"),
        ("GANGWRIGHT_TOKEN_FILE", "token"),
        ("GANGWRIGHT_GRACE", "0"),
        ("GANGWRIGHT_GRACE", "-1"),
        ("GANGWRIGHT_GRACE", "nan"),
        ("GANGWRIGHT_GRACE", "inf"),
        ("GANGWRIGHT_GRACE", "soon"),
        ("GANGWRIGHT_GLOO_TIMEOUT", "10s"),
        ("GANGWRIGHT_LOG_PREFIX", "perhaps"),
        ("GANGWRIGHT_STOPPED_LIMIT", "never"),
        ("GANGWRIGHT_SILENT_LIMIT", "0"),
        ("GANGWRIGHT_FINISH_LIMIT", "an hour"),
        ("GANGWRIGHT_INSECURE", "maybe"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(name: str, value: str) -> None:
    """The variable, what it was, and what would be right."""
    with pytest.raises(SettingsError, match="must be ") as caught:
        read({**GOOD, name: value})

    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name} = ")


def test_plain_http_is_for_loopback_alone() -> None:
    """Even with GANGWRIGHT_INSECURE=1 no token leaves the machine unencrypted."""
    insecure = {**GOOD, "GANGWRIGHT_INSECURE": "1"}
    del insecure["GANGWRIGHT_CA"]

    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert not read({**insecure, "GANGWRIGHT_MASTER": f"http://{host}:80"}).master.secure
    for host in ("10.0.0.1", "localhost.example.org", "master"):
        with pytest.raises(SettingsError):
            read({**insecure, "GANGWRIGHT_MASTER": f"http://{host}:80"})
