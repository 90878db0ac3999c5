"""The environment variables that Horovod reads at every `init`: alone at first, then as a member of a round.

Pure except for `apply`. Horovod's C++ calls `getenv` at each init, and Python's `os.environ` writes through to it. So a
process changes its rank by changing these variables and initializing again. With one worker per pod, local and cross
sizes are 1, so that Horovod does not build its cross mesh (a third off `init` at 8 workers). `HOROVOD_ELASTIC` is set
before any `tf.function` is traced: without it the graph would contain the size 1 of the warm-up as a constant.
"""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional
from urllib.parse import urlsplit

GLOO_TIMEOUT = "10"
"""Seconds until a collective with a silent peer fails. With Horovod's own 30 s a lost node would block all members for
that time.
"""

INTERFACE = "eth0"
"""Default of the pod's network interface."""

Changes = Dict[str, Optional[str]]
"""Variables to set; None removes a variable."""


def solo(env: Mapping[str, str]) -> Changes:
    """Variables of a process alone: no address of a rendezvous, so gloo keeps its store in memory (15 ms)."""
    return {
        **_ranks(0, 1),
        "HOROVOD_ELASTIC": "1",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_HOSTNAME": env.get("GANGWRIGHT_POD") or "worker",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": env.get("GANGWRIGHT_GLOO_TIMEOUT") or GLOO_TIMEOUT,
        "HOROVOD_GLOO_IFACE": env.get("GANGWRIGHT_IFACE") or INTERFACE,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": None,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": None,
    }


def member(
    rank: int, size: int, env: Mapping[str, str], theirs: Mapping[str, str], pods: Changes | None = None
) -> Changes:
    """Variables of rank `rank` of `size`, with the agent's loopback address. `theirs` are the assignment's variables.
    `pods` are the pod's own values of the variables that earlier assignments set; they are restored.

    The assignment may set any variable except those of the rank and of the agent. Horovod's client sends no headers,
    but builds its addresses by appending `:PORT/SCOPE/KEY` to the host. So a host with the key as a path sends the key.
    """
    address = urlsplit(env["GANGWRIGHT_SHIM"])
    ours: Changes = {
        **_ranks(rank, size),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": f"{address.hostname}:{address.port}/{env['GANGWRIGHT_SHIM_KEY']}",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(address.port),
    }
    added = {key: value for key, value in theirs.items() if not key.startswith("GANGWRIGHT_SHIM")}
    return {**(pods or {}), **added, **ours}


def apply(changes: Changes) -> None:
    """Applies `changes` to this process's environment."""
    for key, value in changes.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def _ranks(rank: int, size: int) -> Changes:
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
    }
