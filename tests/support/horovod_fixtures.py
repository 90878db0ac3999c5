"""Horovod for pytest: whoever asks for `horovod_python` gets the interpreter, and carries the marker `plane`.

It is built before the first test runs, outside of any test's time limit.
"""

from pathlib import Path

import pytest

from bench.horovod import build, build_torch

NAME = "horovod_python"


def build_before_tests(session: pytest.Session) -> None:
    """Builds the environment when a collected test is going to need it."""
    needed = any(NAME in getattr(item, "fixturenames", ()) for item in session.items)
    if not needed or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        build.python()


@pytest.fixture(scope="session")
def horovod_python() -> Path:
    """A Python 3.11 with TensorFlow 2.15.1 and Horovod 0.28.1."""
    return build.python()


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """A Python with PyTorch and Horovod 0.28.1; without one the test is skipped."""
    found = build_torch.find()
    if found is None:
        pytest.skip(build_torch.MISSING)
    return found
