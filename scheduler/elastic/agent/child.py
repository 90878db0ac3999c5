"""The training as a process: started in a session of its own, watched, and killed when it must be.

A session of its own, because signals to our group (a terminal, a kubelet that signals more than process 1) are for the
agent alone: SIGTERM means an orderly leave, and Python's default for it is to die at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Mapping, Sequence

from .output import Stream, Tail
from .processes import signal_group, stopped
from .reaper import Reaper

DRAIN = 1.0
"""Seconds for the last output of a child that ended."""


class Child:
    """One process that trains. Raises OSError when the command cannot be started."""

    def __init__(
        self, reaper: Reaper, command: Sequence[str], environment: Mapping[str, str], prefix: bytes = b""
    ) -> None:
        self.tail = Tail()
        out, into_out = os.pipe()
        err, into_err = os.pipe()
        try:
            self._process = reaper.launch(
                lambda: subprocess.Popen(  # noqa: S603 - the user's own command
                    list(command),
                    env=dict(environment),
                    stdout=into_out,
                    stderr=into_err,
                    start_new_session=True,
                )
            )
        except OSError:
            os.close(out)
            os.close(err)
            raise
        finally:
            os.close(into_out)
            os.close(into_err)
        self._streams = [Stream(out, 1, self.tail, prefix), Stream(err, 2, self.tail, prefix)]
        for stream in self._streams:
            stream.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it."""
        return stopped(self.pid)

    def kill(self) -> None:
        """End it and all it started, now."""
        signal_group(self.pid, signal.SIGKILL)

    def ask_for_stacks(self) -> None:
        """Have Python print where each of its threads is, and end; who does not is to be killed a moment later."""
        signal_group(self.pid, signal.SIGABRT)

    def drain(self) -> None:
        """Wait for the rest of its output."""
        for stream in self._streams:
            stream.join(DRAIN)
