"""What the tests of the elastic master share: real Horovod, built before the first test that needs it."""

import pytest

from tests.elastic.horovod.fixtures import build_before_tests, horovod_python, torch_python

__all__ = ["horovod_python", "torch_python"]


def pytest_collection_finish(session: pytest.Session) -> None:
    build_before_tests(session)
