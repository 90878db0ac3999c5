"""Who gives way while a training is measured."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.elastic.aside import able, aside, descendants

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
child.communicate(b"\\n")
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A child of ours and its own child."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        yield child.pid, int(child.stdout.readline())
        child.stdin.write("\n")


def test_children_of_children_are_found(family: tuple[int, int]) -> None:
    """Whatever descends from a process, and not the process itself."""
    assert set(family) <= descendants(os.getpid())
    assert descendants(family[0]) == {family[1]}


@pytest.mark.skipif(not able(), reason="needs CAP_SYS_NICE")
def test_all_but_the_jobs_give_way_for_as_long_as_it_lasts(family: tuple[int, int]) -> None:
    """The jobs, and we ourselves, keep their policy; afterwards everybody has the usual one."""
    elder, younger = family

    with aside([younger]):
        inside = [os.sched_getscheduler(pid) for pid in (elder, younger, 0)]

    assert inside == [os.SCHED_IDLE, os.SCHED_OTHER, os.SCHED_OTHER]
    assert os.sched_getscheduler(elder) == os.SCHED_OTHER


def test_who_ended_meanwhile_is_passed_over() -> None:
    """A process that ends while others are measured disturbs nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child, aside([]):
        child.communicate(b"\n")

    assert child.returncode == 0
