"""A newcomer's first steps, alone, before anybody is interrupted for it, and undone afterwards.

What is slow in a first step is done here: building variables, tracing the training step, tracing Horovod's broadcasts.
The script's own function runs until its first commit or check. An exception ends it there, which no `except Exception`
of the script catches. Then all that the function reaches is what it was (`rehearsal_snapshot`). So are TensorFlow's variables, the
counters, and the sources of chance of Python, numpy, TensorFlow and PyTorch. `GANGWRIGHT_WARMUP=1` is in the environment
meanwhile, for scripts with effects outside (a log file, a checkpoint).

An iterator that cannot be copied, such as a generator made outside the function, would be ahead afterwards. Then nothing
is rehearsed: one line names it, and the first step is slower instead.

What stays as the rehearsal left it:

* effects outside the process, and what is reached through an object of a library or another thread alone;
* an array or a tensor of more than 64 MiB that is no model's, and what lies in a container of more than 10,000 things:
  both are taken for data;
* attributes of the script's own Keras models and layers, but for numbers and texts;
* a module that the function is the first to import, and a variable with a random value that a traced function makes.

An eager operation of TensorFlow with a seed of its own draws from its beginning, or one step further. It does so where
it drew before the training, or where a function with such operations was traced before.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Mapping, Sequence

from . import script_setup
from .frameworks import Plain
from .rehearsal_snapshot import Snapshot
from .runtime_errors import Interrupted, Unmovable
from .training_progress import say
from .worker_context import Worker

FLAG = "GANGWRIGHT_WARMUP"


def run(
    worker: Worker,
    framework: Plain,
    func: Callable[..., Any],
    args: Sequence[Any],
    words: Mapping[str, Any],
) -> None:
    """Runs `func(state, …)` up to its first commit, which interrupts it, and undoes it. Its errors pass through.

    The function hears the rank and size that it will have, while its collectives are alone. Where it fails so, it may
    have waited for a value of rank 0; then it is run once more as that.
    """
    framework.prepare()
    framework.sync(None)
    framework.sync(framework.plain())
    framework.broadcast([0] * 2)

    def rehearse() -> None:
        try:
            kept = Snapshot(func, framework.state, args, words)
        except Unmovable as error:
            say(f"no rehearsal: {error} cannot be put back; the first step is slower instead")
            return
        position = worker.progress.step, worker.progress.samples
        worker.warming = True
        os.environ[FLAG] = "1"
        try:
            with framework.undone(kept), contextlib.suppress(Interrupted):
                func(framework.state, *kept.args, **kept.words)
        finally:
            worker.warming = False
            os.environ.pop(FLAG, None)
            worker.progress.moved(*position)
            worker.progress.values.clear()

    try:
        rehearse()
    except Exception as error:
        if not script_setup.others_heard():
            raise
        say(f"the rehearsal failed, and begins again as rank 0 of 1: {type(error).__name__}: {error}")
        with script_setup.alone():
            rehearse()
