"""The life of a child program: start, ready, signal, stop, start again.

Every child has a process group of its own (Ctrl-C in a terminal is for us, not for them), writes its log into a file,
and dies with us even when we are killed. The kernel ties that last promise to the *thread* that started the child, so
all children are started by one thread that lives as long as this program.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from bench.plane.errors import NotReadyError

LAUNCH = Path(__file__).with_name("launch.py")

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL: the plane's data are thrown away, nobody needs a longer good-bye."""

_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plane-starter")


class Program:
    """One child program of the plane, which may be started, stopped and started again with the same command line."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        ready: Callable[[], bool],
        hostname: str = "",
        env: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log = log
        self._ready = ready
        self._hostname = hostname
        self._env = env
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id while it runs. Raises NotReadyError when it does not."""
        if self._child is None:
            raise NotReadyError(f"{self.name} is not started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> Self:
        """Starts the program and returns at once. A program that runs already is left alone."""
        if not self.alive:
            self._child = _STARTER.submit(self._spawn).result()
        return self

    def until_ready(self, within: float = 60.0) -> Self:
        """Waits until the program answers. Raises NotReadyError with the end of its log when it ends or stays
        silent.
        """
        deadline, pause = time.monotonic() + within, 0.01
        while not self._ready():
            if not self.alive:
                raise NotReadyError(f"{self.name} ended with {self._code}.\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"{self.name} did not become ready within {within:g} s.\n{self.log_end()}"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
        return self

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the program alone, for example SIGSTOP to make it hang."""
        if self.alive and self._child is not None:
            self._child.send_signal(number)

    def stop(self, grace: float = GRACE) -> None:
        """Ends the program: SIGTERM, after `grace` seconds SIGKILL to its whole group."""
        if self._child is None:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self._child.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
        self._child = None

    def ended(self, within: float) -> int:
        """Its exit code, once it has ended by itself. Raises NotReadyError when it runs on."""
        if self._child is None:
            raise NotReadyError(f"{self.name} is not started")
        try:
            return self._child.wait(within)
        except subprocess.TimeoutExpired:
            raise NotReadyError(f"{self.name} runs on after {within:g} s.\n{self.log_end()}") from None

    def kill(self) -> None:
        """Ends the program at any line: SIGKILL to its whole group."""
        if self._child is not None and self.alive:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()

    def restart(self, within: float = 60.0) -> Self:
        """Stops the program, starts it with the same command line and waits until it answers."""
        self.stop()
        return self.start().until_ready(within)

    def log_end(self, lines: int = 30) -> str:
        """The last lines of its log, headed by the file's name."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join([f"The end of {self.log}:", *text.splitlines()[-lines:]])

    @property
    def _code(self) -> int | None:
        return None if self._child is None else self._child.returncode

    def _spawn(self) -> "subprocess.Popen[bytes]":
        launch = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), self._hostname]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*launch, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )
