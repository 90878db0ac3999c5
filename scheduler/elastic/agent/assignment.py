"""A worker's place in a round, as the master assigned it: what the agent itself must know of it.

The child gets everything the master said; `env` is completed so that Horovod finds the shim.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from .agent_errors import Garbled


class Assignment(NamedTuple):
    """Round, rank and size; or `removed`, when the worker is in no round any more. `saves`: its state to disk,
    before it goes.
    """

    round: int
    rank: int
    size: int
    removed: bool
    saves: bool = False

    def line(self) -> str:
        """What Horovod's C++ reads: rank, size, and the same inside and across hosts.

        One worker a pod, and no hierarchy across pods: Horovod then needs no third mesh, which saves a third of its
        start. -1 says that this host left.
        """
        if self.removed:
            return "-1,-1,-1,-1,-1,-1"
        return f"{self.rank},{self.size},0,1,0,1"


ALONE = Assignment(0, 0, 1, removed=False)
"""Before the first round a worker trains by itself."""


def read(told: Mapping[str, Any]) -> Assignment:
    """The assignment in the master's words. Raises Garbled when it makes no sense."""
    removed = told.get("removed") is True
    number, rank, size = (told.get(name) for name in ("round", "rank", "size"))
    if type(number) is not int or number < 1:
        raise Garbled("an assignment without a round")
    if removed:
        return Assignment(number, -1, 0, removed=True, saves=told.get("checkpoint") is True)
    if type(rank) is not int or type(size) is not int or not 0 <= rank < size:
        raise Garbled(f"rank {rank!r} of {size!r} in an assignment")
    return Assignment(number, rank, size, removed=False)
