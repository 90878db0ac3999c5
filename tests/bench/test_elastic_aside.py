"""Who gives way while a training is measured."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.elastic.aside import CAP_SYS_ADMIN, CAP_SYS_NICE, LEAST, able, aside, descendants

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


@pytest.mark.skipif(not able(CAP_SYS_NICE), reason="needs CAP_SYS_NICE")
def test_all_but_the_jobs_give_way_for_as_long_as_it_lasts(family: tuple[int, int]) -> None:
    """The jobs, and we ourselves, keep their policy; afterwards everybody has the usual one."""
    elder, younger = family

    with aside([younger]):
        inside = [os.sched_getscheduler(pid) for pid in (elder, younger, 0)]

    assert inside == [os.SCHED_IDLE, os.SCHED_OTHER, os.SCHED_OTHER]
    assert os.sched_getscheduler(elder) == os.SCHED_OTHER


def _weight(pid: int) -> str:
    """The last word of `/autogroup-33 nice 0`; nothing for a process that no session of its own was ever made for, such
    as a container's first one and its children.
    """
    return Path(f"/proc/{pid}/autogroup").read_text(encoding="ascii").rpartition(" ")[2].strip()


@pytest.mark.skipif(
    not able(CAP_SYS_NICE) or not able(CAP_SYS_ADMIN), reason="needs CAP_SYS_NICE and CAP_SYS_ADMIN"
)
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel does not group by session")
def test_sessions_of_their_own_weigh_least_and_a_job_s_as_ever(family: tuple[int, int]) -> None:
    """The kernel shares cores between sessions, whatever their policies: those that give way weigh least meanwhile, but
    not a session in which a job or we are.
    """
    command = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as other,
        subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as job,
    ):
        pids = (other.pid, job.pid, family[0], os.getpid())
        before = [_weight(pid) for pid in pids]
        with aside([job.pid]):
            inside = [_weight(pid) for pid in pids]
        after = [_weight(pid) for pid in pids]
        other.communicate(b"\n")
        job.communicate(b"\n")

    assert inside == [str(LEAST), *before[1:]]
    assert after == before


def test_who_ended_meanwhile_is_passed_over() -> None:
    """A process that ends while others are measured disturbs nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child, aside([]):
        child.communicate(b"\n")

    assert child.returncode == 0
