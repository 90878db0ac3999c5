"""Runs inside the training child, so that an unmodified elastic Horovod script joins, leaves and recovers.

Lives here, by module:

* the import hook that replaces Horovod's elastic loop, and updates PyTorch's samplers (`import_hook`, `run_loop`);
* rank, size and collectives while a script sets up (`script_setup`);
* the rehearsal of a worker alone, and how it is undone (`warmup`, `rehearsal_snapshot`, `value_backup`);
* the entry into a round (`agent_client`, `barrier`, `horovod_environment`), and reports to the agent
  (`training_progress`);
* the checkpoint (`checkpoint_file`), and the samples of a step (`data_position`);
* the small API that a new script imports as `gangwright` (`script_api`).

Never here: third-party imports at import time, code that needs a Python newer than 3.8, and absolute imports of
Gangwright: the agent carries this package into foreign images, under a name of its own.

Callers: the agent's `sitecustomize`, which calls `activate`; a training script, through `import gangwright`.
"""

from __future__ import annotations

import os
import sys


def activate() -> None:
    """Prepares this interpreter for an elastic script; outside an agent (no `GANGWRIGHT_SHIM`) it does nothing.

    Cheap, and safe in any Python program that inherits the environment: it imports neither Horovod nor a framework, and
    starts no thread. Then `hvd.init()` starts alone, at size 1, and `hvd.elastic.run` is replaced. A worker of torchrun
    ends here, because it is not an elastic worker.
    """
    if not os.environ.get("GANGWRIGHT_SHIM"):
        return
    from . import horovod_environment, import_hook

    if os.environ.get("TORCHELASTIC_RUN_ID"):
        try:
            import_hook.end("torchrun runs it")
        except (
            SystemExit
        ) as end:  # at the start of an interpreter it would be displayed as an error of Python itself
            sys.stderr.write(f"{end}\n")
            sys.stderr.flush()
            os._exit(1)
    horovod_environment.apply(horovod_environment.solo(os.environ))
    import_hook.install()
