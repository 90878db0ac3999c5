"""What every test may use: the fixtures of the local plane, whose programs are built before the first test needs them.

And what every test finds: log lines as if nothing had set them up. A command sets them up for its whole process, which
in tests is that of all that follow, in whatever order. And no property has to hold within 200 ms a case, as hypothesis
would have
it: how long one takes is for the machine to say.
"""

import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings
from xdist.remote import Producer

from scheduler.ledger.counts import Fault, Faults
from tests.support import sides
from tests.support.plane_fixtures import api, build_before_tests, make_nodes, namespace, plane

__all__ = ["api", "make_nodes", "namespace", "plane"]

settings.register_profile("gangwright", settings(), deadline=None)
settings.load_profile("gangwright")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer | None) -> sides.Sides | None:
    """Sides for the plane's tests with `--dist loadscope`; None: whatever else is asked for."""
    mine = config.getvalue("dist") == "loadscope" and _all_of_the_plane(config)
    return sides.Sides(config, log) if mine else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Looks at all tests before some are left out, and orders what is left."""
    config.stash[sides.ASTRAY] = sides.unplaced(items)
    yield
    if _all_of_the_plane(config):
        sides.in_order(items)


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


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fault]]:
    """Steps that failed on one gang, which stop no other gang, yet fail the test: one that expects them clears them."""
    noted: list[Fault] = []
    note = Faults.note

    def noting(self: Faults, fault: Fault) -> None:
        noted.append(fault)
        note(self, fault)

    monkeypatch.setattr(Faults, "note", noting)
    yield noted
    assert not noted, noted[0]


def _all_of_the_plane(config: pytest.Config) -> bool:
    return str(config.getvalue("markexpr")).startswith("plane")
