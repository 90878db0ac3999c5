"""Real Horovod for the demo's elastic act, built before the first test that needs it."""

import pytest

from tests.support.horovod_fixtures import build_before_tests, horovod_python

__all__ = ["horovod_python"]


def pytest_collection_finish(session: pytest.Session) -> None:
    build_before_tests(session)
