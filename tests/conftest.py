"""What every test may use: the fixtures of the local plane, whose programs are built before the first test needs them.

And what every test finds: log lines as if nothing had set them up. A command sets them up for its whole process, which
in tests is that of all that follow, in whatever order.
"""

import logging
from collections.abc import Iterator

import pytest
import structlog

from tests import sides
from tests.plane.fixtures import api, build_before_tests, make_nodes, namespace, plane

__all__ = ["api", "make_nodes", "namespace", "plane"]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> sides.Sides | None:
    """None: whatever else `--dist` says."""
    return sides.Sides(config) if config.getvalue("dist") == "loadscope" else None


def pytest_collection_finish(session: pytest.Session) -> None:
    if astray := sides.unplaced(session.items):
        raise pytest.UsageError(f"these train, and tests/sides.py does not know it: {', '.join(astray)}")
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
