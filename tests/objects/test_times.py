"""Times between RFC 3339 and seconds since the epoch."""

import pytest

from scheduler.objects import times

AT = 1_767_225_600.25


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ("seconds", "2026-01-01T00:00:00Z"),
        ("milliseconds", "2026-01-01T00:00:00.250Z"),
        ("microseconds", "2026-01-01T00:00:00.250000Z"),
    ],
)
def test_a_time_is_written_as_kubernetes_writes_it(digits, text):
    """In UTC, with as many digits as are wanted."""
    assert times.rfc3339(AT, digits) == text


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00.250Z", "2026-01-01T01:00:00.250+01:00", "2026-01-01T00:00:00.250"]
)
def test_a_time_is_read_in_its_zone(text):
    """One that names no zone is in UTC."""
    assert times.known(text) == AT


@pytest.mark.parametrize(
    "text", [None, "", "yesterday", "2026-13-01T00:00:00Z", "9" * 5000, "2026", "17672256"]
)
def test_what_is_no_time_is_none(text):
    """A count of seconds is none either, though it may look like a date."""
    assert times.known(text) is None
