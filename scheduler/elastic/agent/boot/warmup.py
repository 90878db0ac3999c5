"""A newcomer's first steps, alone, before anybody is interrupted for it: on a snapshot that is restored afterwards.

What is slow in a first step is done here: building variables, tracing the training step, tracing Horovod's broadcasts.
The script's own function runs until its first commit or check; that ends it with an exception that no
`except Exception` of the script catches. Then every variable of the process, the optimizer's slots, the state's plain
values, the counters and the sources of chance of Python, numpy and torch are what they were. `GANGWRIGHT_WARMUP=1` is
in the environment meanwhile, for scripts with effects outside (a log file, a checkpoint).

Not undone, because nobody could: what the script printed, and how far an iterator is that it made outside its function.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Mapping, Sequence

from .errors import Interrupted
from .frameworks import Plain
from .worker import Worker

FLAG = "GANGWRIGHT_WARMUP"


def run(
    worker: Worker,
    framework: Plain,
    func: Callable[..., Any],
    args: Sequence[Any],
    words: Mapping[str, Any],
) -> None:
    """Runs `func(state, …)` up to its first commit, which interrupts it, and undoes it. Its errors pass through."""
    framework.prepare()
    framework.sync(None)
    framework.sync(framework.plain())
    framework.broadcast([0] * 2)
    position = worker.progress.step, worker.progress.samples
    worker.warming = True
    os.environ[FLAG] = "1"
    try:
        with framework.undone(), contextlib.suppress(Interrupted):
            func(framework.state, *args, **words)
    finally:
        worker.warming = False
        os.environ.pop(FLAG, None)
        worker.progress.moved(*position)
        worker.progress.values.clear()
