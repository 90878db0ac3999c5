"""Settings of a text, as most tests here want them."""

import pytest

from scheduler.settings import load


@pytest.fixture
def written():
    """Load a text, away from the environment of this process."""

    def load_text(text, environ=None, flags=None):
        return load(text=text, environ=environ or {}, flags=flags)

    return load_text
