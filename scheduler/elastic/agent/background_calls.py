"""Calls that may take long, each in a thread of its own.

A pod has a limit of processes, and threads count. Where none can be started the call waits for the agent's next look: an
orderly leave that ended in a traceback instead would cost the job the steps since its last commit.
"""

from __future__ import annotations

import queue
import threading
from typing import Callable

Work = Callable[[], None]


class BackgroundCalls:
    """Safe from any thread."""

    def __init__(self) -> None:
        self._kept: queue.SimpleQueue[tuple[str, Work]] = queue.SimpleQueue()

    def run(self, name: str, work: Work) -> None:
        """Now, or as soon as there is a thread to be had."""
        try:
            threading.Thread(target=work, name=name, daemon=True).start()
        except RuntimeError:
            self._kept.put((name, work))

    def again(self) -> None:
        """Tries once more what found no thread."""
        for _ in range(self._kept.qsize()):
            self.run(*self._kept.get())
