"""Values of settings: each kind reads what it takes, and says what would be right of all else."""

import pytest

from scheduler.errors import SettingsError
from scheduler.settings.kinds import is_loopback


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("1m30s", 90), ("2h", 7200), ("1.5m", 90), ("0.1s", 0.1)],
)
def test_durations_have_units(written, text, seconds):
    """Every unit counts, and they add up."""
    assert written(f"gangs: {{backoff: {text}, backoffLimit: 24h}}").gangs.backoff == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1Mi", 2**20), ("64Mi", 2**26), ("2M", 2_000_000), ("1e7", 10**7)]
)
def test_sizes_are_quantities(written, text, size):
    """The words of Kubernetes for amounts."""
    assert written(f"verbs: {{bodyLimit: {text}}}").verbs.body_limit == size


MISTAKES = [
    (
        "verbs:\n\n  port: 99999",
        r"verbs\.port \(settings\.yaml, line 3\) = '99999': must be between 0 and 65535",
    ),
    ("verbs:\n  port: ten", r"line 2\) = 'ten': must be a whole number"),
    ("verbs:\n  port: '10'", r"must be a whole number"),
    ("verbs:\n  port: 1.5", r"must be a whole number"),
    ("verbs:\n  port: 0x10", r"must be a whole number"),
    ("verbs:\n  port: [1]", r"must be a single value"),
    ("verbs:\n  port:", r"must be a whole number"),
    ("verbs:\n  httpTimeout: 2", r"must be a duration with its unit, for example 500ms"),
    ("verbs:\n  httpTimeout: 2 s", r"must be a duration"),
    ("verbs:\n  httpTimeout: -2s", r"must be a duration"),
    ("verbs:\n  httpTimeout: 2d", r"must be a duration"),
    ("verbs:\n  httpTimeout: 1h", r"must be between 0\.1s and 20s"),
    ("verbs:\n  keepAlive: 90s", r"must be between 100s"),
    ("verbs:\n  bodyLimit: 64MB", r"must be an amount of bytes"),
    ("verbs:\n  bodyLimit: 1Ki", r"must be between"),
    ("placement:\n  required: yes", r"= 'yes': must be true or false"),
    ("placement:\n  required: 'true'", r"must be true or false"),
    ("placement:\n  strategy: packed", r"must be one of pack, spread, cosine"),
    ("placement:\n  level: 5", r"is read as type int: put it in quotes"),
    ("cluster:\n  schedulerNames: []", r"must have 1 to 64 items"),
    ("cluster:\n  schedulerNames: gangwright", r"must be a list"),
    ("cluster:\n  schedulerNames:\n  - a\n  - a", r"line 4\) = 'a': is in the list twice"),
    ("cluster:\n  schedulerNames: [A]", r"lowercase"),
    ("cluster:\n  levels:\n  - name: rack", r"line 3\).*must have name and label"),
    ("cluster:\n  levels:\n  - {name: rack, label: x, key: y}", r"'key' is unknown here"),
    ("cluster:\n  levels:\n  - {name: rack, label: 'a b'}", r"must be a label key"),
    ("gangs:\n  largestGang: 5000", r"must be between 1 and 4096"),
    ("log:\n  level: loud", r"must be one of debug, info, warning, error"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[text[:40] for text, _ in MISTAKES])
def test_a_mistake_is_told_with_its_place_and_remedy(written, text, said):
    """Nothing wrong is ever taken for something else, or ignored."""
    with pytest.raises(SettingsError, match=said):
        written(text)


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("example.com", False),
    ],
)
def test_loopback_reaches_this_machine_alone(host, alone):
    """Addresses of either family and the usual name; no other name is believed."""
    assert is_loopback(host) is alone
