"""A newcomer's first steps, alone, before other workers are interrupted for it; they are undone after that.

The slow parts of a first step happen here: building variables, tracing the training step, tracing Horovod's broadcasts.
The script's own function runs until its first commit or check. There an exception ends it, which no `except Exception`
of the script catches. Then everything that the function reaches is restored (`rehearsal_snapshot`). So are TensorFlow's
variables, the counters, and the random states of Python, numpy, TensorFlow and PyTorch. `GANGWRIGHT_WARMUP=1` is in the
environment meanwhile, for scripts with effects outside the process (a log file, a checkpoint).

An iterator that cannot be copied, for example a generator created outside the function, would be ahead after the
rehearsal. Then there is no rehearsal: one log line names the iterator, and the first step is slower instead.

Not restored after the rehearsal:

* effects outside the process, and objects that are reached only through an object of a library or another thread;
* an array or a tensor of more than 64 MiB outside a model, and the items of a container with more than 10,000 items:
  both count as data;
* attributes of the script's own Keras models and layers, except numbers and strings;
* a module that the function imports first, and a variable with a random value that a traced function creates.

An eager operation of TensorFlow with a seed of its own draws from its beginning, or one step further. That is the case
if it drew before the training, or if a function with such operations was traced before.
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
    """Runs `func(state, …)` up to its first commit, which interrupts it, and undoes it. Its errors propagate.

    The function gets its future rank and size, while its collectives run alone. If it fails, it may have needed a value
    of rank 0; then it runs once more as rank 0 of 1.
    """
    framework.prepare()
    framework.sync(None)
    framework.sync(framework.plain())
    framework.broadcast([0] * 2)

    def rehearse() -> None:
        try:
            kept = Snapshot(func, framework.state, args, words)
        except Unmovable as error:
            say(f"no rehearsal: {error} cannot be restored. The first step is slower instead")
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
        say(f"the rehearsal failed, repeating it as rank 0 of 1: {type(error).__name__}: {error}")
        with script_setup.alone():
            rehearse()
