"""What runs inside the training child, so that an unmodified elastic-Horovod script joins, leaves and recovers.

Lives here, by module:

* the import hook that gives Horovod's elastic loop another reset (`hook`, `loop`);
* what a script hears while it sets up (`place`, `setting_up`), and samplers that are dealt again (`samplers`);
* the rehearsal, alone, and how it is undone (`warmup`, `snapshot`);
* the way into a round (`shim`, `doorstep`, `environment`), and what is told to the agent (`progress`);
* the checkpoint (`checkpoint`) and the arithmetic of batches (`batches`);
* the small API that a new script imports as `gangwright` (`api`), and the end of scripts of another kind (`foreign`).

Never here: anything but the standard library at import time, whatever needs a Python newer than 3.8, and any import by
an absolute name of ours: the agent carries this package into images of other people, under a name of its choice.

Who may call: the agent's `sitecustomize`, which calls `activate`; a training script, through `import gangwright`.
"""

from __future__ import annotations

import os
import sys


def activate() -> None:
    """Prepares this interpreter for an elastic script; outside an agent (no `GANGWRIGHT_SHIM`) it does nothing.

    Cheap, and safe in any Python program that inherits the environment: nothing of Horovod or of a framework is
    imported, no thread is started. Afterwards `hvd.init()` starts alone, at size 1, and `hvd.elastic.run` is ours.
    A worker of torchrun ends here, for it is none of ours.
    """
    if not os.environ.get("GANGWRIGHT_SHIM"):
        return
    if os.environ.get("TORCHELASTIC_RUN_ID"):
        _end_worker_of_torchrun()
    from . import environment
    from .hook import install

    environment.apply(environment.solo(os.environ))
    install()


def _end_worker_of_torchrun() -> None:
    """At the start of an interpreter an exception would be shown as a fault of Python itself."""
    from . import foreign

    try:
        foreign.seen("torchrun runs it")
    except SystemExit as end:
        sys.stderr.write(f"{end}\n")
        sys.stderr.flush()
        os._exit(1)
