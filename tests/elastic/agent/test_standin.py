"""Horovod's stand-in and Horovod itself below real agents, with the same script: what stories rely on is the same."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.elastic.agent.packing import build
from tests.elastic.agent.gang import Fatal, Member

SCRIPTS = Path(__file__).parents[1] / "scripts"
COLLECTIVE = 2
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
    """An announced change costs no step; a peer that is killed, or stopped for the time-out, takes the others back to
    their commit, and a peer that lives and does nothing is waited for; a peer that is missed in `init` ends the others.
    """
    first = gang.start("w-0", GANGWRIGHT_GLOO_TIMEOUT=str(COLLECTIVE))
    gang.sees(lambda: first.trains(1))
    second = joins(gang, "w-1", first)
    second.process.send_signal(signal.SIGTERM)
    gang.sees(lambda: second.over and first.trains(1))
    assert second.process.wait(60) == 0
    assert whole(first)
    assert agree(first, second)

    third = joins(gang, "w-2", first)
    assert first.arrivals == ["newcomer", "announced", "announced", "announced"]
    assert loses(gang, first, third, lambda: os.kill(gang.child(third), signal.SIGKILL)) < COLLECTIVE
    together(gang, first, third)

    stopped = gang.child(third)
    took = loses(gang, first, third, lambda: os.kill(stopped, signal.SIGSTOP))
    assert COLLECTIVE <= took < 3 * COLLECTIVE
    os.kill(stopped, signal.SIGKILL)
    together(gang, first, third)

    os.kill(gang.child(third), signal.SIGUSR1)
    time.sleep(3 * COLLECTIVE)
    waits = len(first.arrivals)
    assert loses(gang, first, third, lambda: os.kill(gang.child(third), signal.SIGKILL)) < COLLECTIVE
    assert len(first.arrivals) == waits + 1, "it waited for its peer, and for nothing else"
    together(gang, first, third)

    gang.victim, exits = third, len(first.exits)
    os.kill(gang.child(third), signal.SIGKILL)
    gang.sees(lambda: len(first.exits) > exits)
    assert first.exits[-1]["signal"] == signal.SIGABRT
    together(gang, first, third)


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


def loses(gang: Fatal, first: Member, lost: Member, strike: Callable[[], None]) -> float:
    """Seconds from the loss of a peer until the first is at the barrier for it."""
    arrivals, began = len(first.arrivals), time.monotonic()
    strike()
    gang.sees(lambda: len(first.arrivals) > arrivals)
    assert first.arrivals[arrivals] == "failure"
    return time.monotonic() - began


def whole(member: Member) -> bool:
    """It took each of its steps once."""
    steps = [step["step"] for step in member.steps]
    return all(later == earlier + 1 for earlier, later in itertools.pairwise(steps))


def agree(first: Member, second: Member) -> bool:
    """Both had the same weights after each step that they took together."""
    sums = {step["step"]: step["sum"] for step in first.steps}
    return all(sums[step["step"]] == step["sum"] for step in second.steps)
