"""What runs inside the training child, so that an unmodified elastic-Horovod script joins, leaves and recovers.

Lives here: the import hook that gives Horovod's elastic loop another reset (`hook`, `loop`), the solo warm-up on a
snapshot (`warmup`), the way into a round (`shim`, `doorstep`, `environment`), what is told to the agent (`progress`),
the checkpoint (`checkpoint`), the arithmetic of batches (`batches`) and the small API that a new script imports as
`gangwright` (`api`).

Never here: anything but the standard library at import time, whatever needs a Python newer than 3.8, and any import by
an absolute name of ours: the agent carries this package into images of other people, under a name of its choice.

Who may call: the agent's `sitecustomize`, which calls `activate`; a training script, through `import gangwright`.
"""

from __future__ import annotations

import os


def activate() -> None:
    """Prepares this interpreter for an elastic script; outside an agent (no `GANGWRIGHT_SHIM`) it does nothing.

    Cheap, and safe in any Python program that inherits the environment: nothing of Horovod or of a framework is
    imported, no thread is started. Afterwards `hvd.init()` starts alone, at size 1, and `hvd.elastic.run` is ours.
    """
    if not os.environ.get("GANGWRIGHT_SHIM"):
        return
    from . import environment
    from .hook import install

    environment.apply(environment.solo(os.environ))
    install()
