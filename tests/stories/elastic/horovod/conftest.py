"""Rings of real training processes, which end with the test."""

import pytest

from tests.stories.elastic.horovod.support.ring import Ring


@pytest.fixture
def rings(tmp_path):
    """`rings(python, script, *options, **env)`: a ring; what its workers said is in the output of a test that fails."""
    made = []

    def make(python, script, *options, **env):
        made.append(Ring(python, tmp_path, script=script, options=options, env=env))
        return made[-1]

    yield make
    for ring in made:
        ring.__exit__()
        print(ring.story())
