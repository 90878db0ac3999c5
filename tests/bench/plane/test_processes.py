"""How a child program lives and dies."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.plane.errors import NotReadyError
from bench.plane.processes import Program

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
SERVING = "print('serving', flush=True); import time; time.sleep(600)"

Make = Callable[..., Program]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a Python program that is ready once it has said so in its log."""
    made: list[Program] = []

    def one(code: str, **words: Any) -> Program:
        log = tmp_path / "program.log"
        ready = lambda: log.exists() and "serving" in log.read_text()  # noqa: E731
        made.append(Program("program", [sys.executable, "-c", code], log=log, ready=ready, **words))
        return made[-1]

    yield one
    for program in made:
        program.kill()


def test_ready_means_it_answered(make: Make) -> None:
    """`until_ready` returns when the program answers; it then runs under a process group of its own."""
    program = make(SERVING).start().until_ready()

    assert program.alive
    assert os.getpgid(program.pid) == program.pid != os.getpgid(0)


def test_early_end_shows_the_log(make: Make) -> None:
    """A program that ends before it is ready is reported with its exit code and the end of its log."""
    program = make("print('no such flag'); raise SystemExit(3)").start()

    with pytest.raises(NotReadyError, match=r"program ended with 3(?s:.*)no such flag"):
        program.until_ready()


def test_silence_shows_the_log(make: Make) -> None:
    """A program that runs without ever answering is reported with the time waited."""
    program = make("import time; time.sleep(600)").start()

    with pytest.raises(NotReadyError, match=r"did not become ready within 0\.1 s"):
        program.until_ready(within=0.1)


def test_stop_ends_the_stubborn(make: Make) -> None:
    """A program that ignores SIGTERM is killed after the grace; the stopped one can be started again."""
    program = make(f"{STUBBORN}; {SERVING}").start().until_ready()
    first = program.pid

    program.stop(grace=0.05)
    assert not program.alive

    assert program.start().pid != first


def test_stop_ends_the_stopped(make: Make) -> None:
    """A program held by SIGSTOP still hears SIGTERM."""
    program = make(SERVING).start().until_ready()
    program.signal(signal.SIGSTOP)

    program.stop(grace=10)

    assert not program.alive


def test_kill_leaves_no_grandchild(make: Make) -> None:
    """Killing a program also ends the children it started."""
    code = f"import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid); {SERVING}"
    program = make(code).start().until_ready()
    grandchild = int(program.log.read_text().split()[0])

    program.kill()

    wait_gone(grandchild)


@pytest.mark.slow
def test_children_die_with_their_parent(tmp_path: Path) -> None:
    """When we are killed, which gives no time for any clean-up, our programs end too."""
    code = f"""
import sys, time
from pathlib import Path
from bench.plane.processes import Program
log = Path({str(tmp_path / "log")!r})
program = Program("child", [sys.executable, "-c", {SERVING!r}], log=log, ready=lambda: "serving" in log.read_text())
print(program.start().until_ready().pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.kill()

    wait_gone(child)


def test_hostname_of_its_own(make: Make) -> None:
    """A program may run under another hostname; where the machine forbids that, it keeps the machine's."""
    program = make(f"import socket; print(socket.gethostname()); {SERVING}", hostname="elsewhere")

    program.start().until_ready()

    assert program.log.read_text().split()[0] in {"elsewhere", socket.gethostname()}
    assert socket.gethostname() != "elsewhere"


def wait_gone(pid: int) -> None:
    """Returns when no such process runs (a zombie runs no more); the test's time limit ends the wait."""
    status = Path(f"/proc/{pid}/status")
    while status.exists() and "State:\tZ" not in _text(status):
        os.sched_yield()


def _text(place: Path) -> str:
    try:
        return place.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "State:\tZ"
