"""What every test may use: the fixtures of the local plane, whose programs are built before the first test needs them."""

import pytest

from tests.plane.fixtures import api, build_before_tests, make_nodes, namespace, plane

__all__ = ["api", "make_nodes", "namespace", "plane"]


def pytest_collection_finish(session: pytest.Session) -> None:
    build_before_tests(session)
