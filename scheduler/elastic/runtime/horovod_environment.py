"""The environment variables that Horovod reads at every `init`: alone at first, then as a member of a round.

Pure but for `apply`. Horovod's C++ asks `getenv` anew at each init, and Python's `os.environ` writes through to it, so
a process changes its rank by changing these and initialising again. One worker per pod: local and cross sizes are 1,
which also keeps Horovod from building its cross mesh (a third off `init` at 8 workers). `HOROVOD_ELASTIC` is set before
any `tf.function` is traced: without it the size 1 of the warm-up would be baked into the graph.
"""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional
from urllib.parse import urlsplit

GLOO_TIMEOUT = "10"
"""Seconds until a collective with a silent peer fails. Horovod's own 30 s is how long a lost node would stop
everybody.
"""

INTERFACE = "eth0"
"""The pod's network interface, where nothing else is said."""

Changes = Dict[str, Optional[str]]
"""Variables to set, and with None those to remove."""


def solo(env: Mapping[str, str]) -> Changes:
    """A process alone: no address of a rendezvous, so gloo keeps its store in memory (15 ms)."""
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
    """Rank `rank` of `size`, found through the agent's loopback address; `theirs` is what the assignment adds, and
    `pods` what the pod had for the variables that former ones added, which end with them.

    The assignment may set anything but what says who we are and where the agent is. Horovod's client sends no headers,
    but makes its addresses by putting `:PORT/SCOPE/KEY` behind the host, so a host with our key as a path shows the
    key.
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
    """Makes `changes` in this process's environment."""
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
