"""What every test may use: the fixtures of the local plane, whose programs are built before the first test needs them.

And what every test finds: log lines as if nothing had set them up. A command sets them up for its whole process, which
in tests is that of all that follow, in whatever order.

With `-n 2 --dist loadgroup` there are two groups, side by side, each with control planes of its own: tests that train,
which wait for processes most of the time but must not train two at a time on two cores, and all others.
"""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.plane.fixtures import api, build_before_tests, make_nodes, namespace, plane

__all__ = ["api", "make_nodes", "namespace", "plane"]

TRAINS = {"horovod_python", "torch_python"}
"""Fixtures of tests in which real workers train."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        trains = TRAINS.intersection(getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group("training" if trains else "placing"))


def pytest_collection_finish(session: pytest.Session) -> None:
    build_before_tests(session)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
