"""Horovod's stand-in and Horovod itself below real agents, with the same script: what stories rely on is the same."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.elastic.jobs import SCRIPTS
from scheduler.elastic.agent.archive import build
from tests.stories.elastic.horovod.support.gang import Fatal, Member

COLLECTIVE = 5
"""Seconds: the time-out of a collective."""

pytestmark = [pytest.mark.plane, pytest.mark.timeout(600)]


@pytest.fixture(params=["standin", "horovod.tensorflow"])
def gang(request: pytest.FixtureRequest, horovod_python: Path, tmp_path: Path) -> Iterator[Fatal]:
    build(tmp_path / "agent.pyz")
    script = f'"{SCRIPTS / "hanging.py"}" "{SCRIPTS / "plain.py"}" --native {request.param} --step-time 0.08'
    shell = f'exec "{horovod_python}" {script}'
    with Fatal(horovod_python, tmp_path / "agent.pyz", tmp_path, "sh", "-c", shell) as one:
        yield one
        print(one.story())


def test_members_meet_train_leave_and_are_lost(gang: Fatal) -> None:
    """An announced change costs no step. A peer that is killed, or stopped for the time-out, takes the others back to
    their commit; a peer that lives and does nothing is waited for. A peer that is missed in `init` ends the others.
    """
    first = gang.start("w-0", GANGWRIGHT_GLOO_TIMEOUT=str(COLLECTIVE))
    gang.sees(lambda: first.trains(1))
    second = joins(gang, "w-1", first)
    second.process.send_signal(signal.SIGTERM)
    gang.sees(lambda: second.over and first.trains(1))
    assert second.process.wait(60) == 0
    third = joins(gang, "w-2", first)
    assert first.arrivals == ["newcomer", "announced", "announced", "announced"]
    assert jumps(first) == {1}
    assert agree(first, second)

    assert loses(gang, first, lambda: os.kill(gang.child(third), signal.SIGKILL)) < COLLECTIVE
    together(gang, first, third)

    stopped = gang.child(third)
    took = loses(gang, first, lambda: os.kill(stopped, signal.SIGSTOP))
    assert took > COLLECTIVE / 2  # it may have waited for a moment before
    os.kill(stopped, signal.SIGKILL)
    together(gang, first, third)

    os.kill(gang.child(third), signal.SIGUSR1)
    waits = len(first.arrivals)
    time.sleep(2 * COLLECTIVE)
    assert len(first.arrivals) == waits, "it waited for its peer"
    loses(gang, first, lambda: os.kill(gang.child(third), signal.SIGKILL))
    together(gang, first, third)
    assert jumps(first) <= {0, 1}
    assert agree(first, third)

    gang.victim = third
    assert "ended before all had met" in aborts(gang, first, third)
    gang.lost = third
    assert "ended before all had met" not in aborts(gang, first, third)


def joins(gang: Fatal, name: str, first: Member) -> Member:
    """The member of this name, once it trains with the first."""
    member = gang.start(name, GANGWRIGHT_GLOO_TIMEOUT=str(COLLECTIVE), GANGWRIGHT_STOPPED_LIMIT="60")
    together(gang, first, member)
    return member


def together(gang: Fatal, *members: Member) -> None:
    """As soon as each has taken further steps in a round of all."""
    taken = {member.name: len(member.steps) for member in members}

    def train() -> bool:
        further = [member.steps[taken[member.name] :] for member in members]
        return all(sum(step["size"] == len(members) for step in steps) > 5 for steps in further)

    gang.sees(train)


def loses(gang: Fatal, first: Member, strike: Callable[[], None]) -> float:
    """Seconds from the loss of a peer until the first is at the barrier for it."""
    arrivals, began = len(first.arrivals), time.monotonic()
    strike()
    gang.sees(lambda: len(first.arrivals) > arrivals)
    assert first.arrivals[arrivals] == "failure"
    return time.monotonic() - began


def aborts(gang: Fatal, first: Member, other: Member) -> str:
    """What the first says until its process ends in `init`, in the round that follows the death of the other."""
    exits, said = len(first.exits), len(first.errors)
    os.kill(gang.child(other), signal.SIGKILL)
    gang.sees(lambda: len(first.exits) > exits)
    assert first.exits[exits]["signal"] == signal.SIGABRT
    gang.lost = None
    together(gang, first, other)
    return "\n".join(first.errors[said:])


def jumps(member: Member) -> set[int]:
    """By how many each of its steps is above the one before."""
    steps = [step["step"] for step in member.steps]
    return {later - earlier for earlier, later in itertools.pairwise(steps)}


def agree(first: Member, other: Member) -> bool:
    """Both had the same weights after each step that they took together."""
    sums = {step["step"]: step["sum"] for step in first.steps}
    return all(sums.get(step["step"], step["sum"]) == step["sum"] for step in other.steps)
