"""One run of one container: its processes on this machine, started, signalled, frozen and waited for.

Lives here: all that knows processes. Never here: pods, the API server, or what a run's end means.
"""

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from bench.plane.errors import NotReadyError, PlaneError

T = TypeVar("T")

ENTER = Path(__file__).with_name("enter.py")

ISOLATIONS = ("root", "user", "none")
"""The ways of enter.py, the best first."""

LOST = 137
"""The exit code of a container of whose end nobody knows, as the kubelet reports it."""


class StartError(PlaneError):
    """The command of a container could not be started; the message says why."""


@dataclass(frozen=True)
class Order:
    """What enter.py is told."""

    command: Sequence[str]
    env: Mapping[str, str]
    log: str
    """File to which output and errors are appended."""
    root: str = ""
    """An empty folder that becomes the container's root, in its own namespace alone."""
    hostname: str = ""
    mounts: Sequence[tuple[str, str, bool]] = ()
    """Folder or file of ours, path in the container, whether it is read-only."""
    folder: str = "/"
    isolation: str = "root"
    join: int = 0
    """First process of a running container whose namespaces are entered instead of new ones."""


class Container:
    """A container that was started. `start` gives it, `wait` its exit code; a signal's is 128 and its number."""

    def __init__(self, order: Order, launcher: asyncio.subprocess.Process, pid: int) -> None:
        self.order = order
        self.pid = pid
        self._launcher = launcher
        self._first = _descriptor(pid)
        self._code = asyncio.ensure_future(self._told())

    @classmethod
    async def start(cls, order: Order) -> Self:
        """Returns when the command runs. Raises StartError."""
        begins = asyncio.ensure_future(asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(ENTER), str(os.getpid()),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env={}, cwd="/",
        ))  # fmt: skip
        try:
            launcher = await asyncio.shield(begins)
            said = await _answer(launcher, order)
        except BaseException:
            launcher = await _surely(begins)
            with suppress(ProcessLookupError):
                launcher.kill()
            await _surely(launcher.wait())
            raise
        if "error" in said:
            await launcher.wait()
            raise StartError(said["error"])
        return cls(order, launcher, said["pid"])

    @property
    def alive(self) -> bool:
        return not self._code.done()

    async def wait(self) -> int:
        """The exit code. May be awaited by several, and given up by any of them."""
        return await asyncio.shield(self._code)

    def signal(self, number: int) -> bool:
        """To its first process alone, as a container runtime does. Whether there was one."""
        if self._first is not None and self.alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, number)
                return True
        return False

    def signal_all(self, number: int) -> bool:
        """To every process in it, those that are born meanwhile included. Whether there was one."""
        done: set[int] = set()
        while fresh := set(self.pids()) - done:
            for pid in fresh:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            done |= fresh
        return bool(done)

    def pids(self) -> list[int]:
        """Every process in it, the first one first; none when it has ended."""
        if not self.alive:
            return []
        children = _children()
        found = [self.pid, *(pid for pid in children.get(self._launcher.pid, []) if pid != self.pid)]
        for pid in found:
            found += [child for child in children.get(pid, []) if child not in found]
        return found

    async def execute(self, command: Sequence[str], log: Path) -> int:
        """Runs one more command in it, and gives its exit code. Raises StartError."""
        other = await Container.start(replace(self.order, command=list(command), join=self.pid, log=str(log)))
        try:
            return await other.wait()
        finally:
            other.signal(signal.SIGKILL)
            await _surely(other.wait())

    async def _told(self) -> int:
        assert self._launcher.stdout is not None
        last = await self._launcher.stdout.readline()
        await self._launcher.wait()
        if self._first is not None:
            os.close(self._first)
        return int(json.loads(last)["code"]) if last else LOST


async def _answer(launcher: asyncio.subprocess.Process, order: Order) -> dict[str, Any]:
    """What it says of the order: the first process, or what is wrong."""
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write(json.dumps(asdict(order)).encode())
    launcher.stdin.close()
    said: dict[str, Any] = json.loads(
        await launcher.stdout.readline() or b'{"error": "it ended before it began"}'
    )
    return said


async def _surely(step: Awaitable[T]) -> T:
    """Waits for it to its end, though we are cancelled meanwhile, as a probe is that has timed out when its pod goes."""
    task = asyncio.ensure_future(step)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


def _descriptor(pid: int) -> int | None:
    """Stands for the process also when its number is another's. None when it has ended already."""
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


@functools.cache
def best_isolation() -> str:
    """The first of ISOLATIONS that this machine permits us."""
    ways = ISOLATIONS if os.geteuid() == 0 else ISOLATIONS[1:]
    for way in ways:
        if _permitted(way):
            return way
    raise NotReadyError("no process can be started on this machine in any way")


def _permitted(way: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        order = Order(
            ["true"], {"PATH": os.defpath}, os.devnull, root=folder, hostname="probe", isolation=way
        )
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(ENTER), str(os.getpid())],
            input=json.dumps(asdict(order)), capture_output=True, text=True, check=False,
        )  # fmt: skip
    return '{"code": 0}' in done.stdout


def _children() -> dict[int, list[int]]:
    """Parent → children, of every process of this machine."""
    found: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                after = Path(entry.path, "stat").read_text().rpartition(") ")[2].split()
                found.setdefault(int(after[1]), []).append(int(entry.name))
    return found
