"""The process's own clock."""

from datetime import UTC, datetime

from scheduler.clock import steady


def test_it_agrees_with_the_wall_clock_and_never_goes_back():
    """Readings follow each other in order, and are the seconds that the API server counts as well."""
    readings = [steady() for _ in range(1000)]
    assert readings == sorted(readings)
    assert abs(readings[-1] - datetime.now(UTC).timestamp()) < 60
