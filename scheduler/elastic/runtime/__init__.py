"""What runs inside the training child, so that an unmodified elastic-Horovod script joins, leaves and recovers.

Lives here, by module:

* the import hook that gives Horovod's elastic loop another reset, and sees to PyTorch's samplers (`import_hook`, `run_loop`);
* what a script hears while it sets up (`script_setup`);
* the rehearsal, alone, and how it is undone (`warmup`, `rehearsal_snapshot`, `value_backup`);
* the way into a round (`agent_client`, `barrier`, `horovod_environment`), and what is told to the agent (`training_progress`);
* the checkpoint (`checkpoint_file`), and whose samples a step takes (`data_position`);
* the small API that a new script imports as `gangwright` (`script_api`).

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
    from . import horovod_environment, import_hook

    if os.environ.get("TORCHELASTIC_RUN_ID"):
        try:
            import_hook.end("torchrun runs it")
        except (
            SystemExit
        ) as end:  # at the start of an interpreter it would be shown as a fault of Python itself
            sys.stderr.write(f"{end}\n")
            sys.stderr.flush()
            os._exit(1)
    horovod_environment.apply(horovod_environment.solo(os.environ))
    import_hook.install()
