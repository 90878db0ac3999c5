"""Real Horovod below real agents: an unmodified script, carried by the archive into an image that has nothing of
ours.
"""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.elastic.jobs import STOCK
from scheduler.elastic.agent.archive import build
from tests.stories.elastic.horovod.support.gang import Fatal, Gang

COLLECTIVE = 10.0
"""Seconds: the agent's GANGWRIGHT_GLOO_TIMEOUT by default."""

pytestmark = [pytest.mark.plane, pytest.mark.timeout(600)]


@pytest.fixture
def gang(horovod_python: Path, tmp_path: Path) -> Iterator[Gang]:
    build(tmp_path / "agent.pyz")
    shell = f'exec "{horovod_python}" "{STOCK}" --steps 1000000 --sleep 0.08'
    with Gang(horovod_python, tmp_path / "agent.pyz", tmp_path, "sh", "-c", shell) as one:
        yield one
        print(one.story())


def test_a_worker_joins_and_leaves_on_sigterm(gang: Gang) -> None:
    """The first trains on while the second starts; SIGTERM takes one out in order, with code 0 and no step lost."""
    first = gang.start("w-0")
    gang.sees(lambda: first.trains(1))
    second = gang.start("w-1")
    gang.sees(lambda: first.trains(2) and second.trains(2))

    first.process.send_signal(signal.SIGTERM)
    gang.sees(lambda: first.over and second.trains(1))

    assert first.process.wait(60) == 0
    assert first.exits[-1]["code"] == 0
    assert [one["why"] for one in gang.calls["leave"]] == ["SIGTERM"]
    after = [step["step"] for step in second.steps if step["size"] == 1][-5:]
    assert after[0] > first.steps[-1]["step"]
    steps = [step["step"] for step in second.steps if step["step"] >= second.steps[-40:][0]["step"]]
    assert steps == sorted(set(steps))


def test_a_frozen_child_is_replaced_in_its_pod(gang: Gang) -> None:
    """The agent kills it, so the survivor goes on alone at once; the next incarnation joins from the survivor's
    state.
    """
    first = gang.start("w-0", GANGWRIGHT_STOPPED_LIMIT="1")
    gang.sees(lambda: first.trains(1))
    second = gang.start("w-1")
    gang.sees(lambda: first.trains(2) and second.trains(2))
    lost, done = gang.child(first), len(second.steps)

    os.kill(lost, signal.SIGSTOP)
    gang.sees(lambda: first.exits and second.trains(1))
    gang.sees(lambda: first.trains(2) and second.trains(2))

    assert gang.child(first) != lost
    assert first.exits[0]["signal"] == signal.SIGKILL
    assert first.exits[0]["why"].startswith("stopped for")
    steps = [step["step"] for step in second.steps[done:]]
    assert all(later - earlier in {0, 1} for earlier, later in itertools.pairwise(steps))


def test_a_member_dies_in_the_second_mesh_of_init(horovod_python: Path, tmp_path: Path) -> None:
    """A member that waits for its connection is let go within seconds, not after five collective time-outs; its process
    ends, and another meets the new one of the member that died. (`test_standin` tells it of the first mesh.)
    """
    build(tmp_path / "agent.pyz")
    shell = f'exec "{horovod_python}" "{STOCK}" --steps 1000000 --sleep 0.08'
    with Fatal(horovod_python, tmp_path / "agent.pyz", tmp_path, "sh", "-c", shell) as gang:
        first = gang.start("w-0")
        gang.sees(lambda: first.trains(1))
        second = gang.start("w-1")
        gang.nth, gang.victim = 1, second
        gang.sees(lambda: first.exits)
        waited = time.monotonic() - gang.killed

        assert first.exits[0]["signal"] == signal.SIGABRT
        assert any("ended before all had met" in line for line in first.errors)
        assert waited < COLLECTIVE
        gang.sees(lambda: first.trains(2) and second.trains(2))
