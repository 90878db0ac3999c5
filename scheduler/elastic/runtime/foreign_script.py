"""A script of another kind than elastic Horovod, told to the agent as soon as it shows.

Lives here: what is said to the agent and to people. Never here: how such a script is recognized (`import_hook`, `activate`).
Why at once: a torchrun job would train to its end on each worker alone, and be taken for one that has failed.
"""

from __future__ import annotations

from . import worker_context

TRIES = 3
"""The agent is on the same machine; one that does not answer so often is busy, and the script goes on."""


def seen(what: str) -> None:
    """Ends this process with what to do. `what`: the sign, as a sentence about the script. Raises SystemExit.

    The agent refuses it where an elastic training has begun: a script may run another tool beside it.
    """
    why = (
        f"the script is not elastic: {what}. Decorate its training function with hvd.elastic.run, or run it as an "
        "ordinary Job of a gang"
    )
    agent, body = worker_context.shim(), {"code": 1, "why": why, "foreign": what}
    told = any(agent.tell("/gone", body) for _ in range(TRIES))
    agent.close()
    if told:
        raise SystemExit(f"gangwright: {why}")
