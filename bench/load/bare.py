"""The road that no scheduler of gangs can beat: somebody who knows every seat beforehand writes it down, and that is
all.

One PATCH a pod takes the gate away and pins it; kube-scheduler has no extender to ask. There is no planner, no ledger,
no watch and no policy about what this writer may write. What the pinned road takes more than this is Gangwright's own;
what this one takes more than `none` is the price of the API server for a pin.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from bench.load.seen import PODS
from bench.load.work import GATE, Object
from bench.plane import Client

AT_ONCE: Final = 32
"""PATCHes on the wire: as many as the creator of the pods has."""


async def write(api: Client, pods: Sequence[Object], nodes: Sequence[str], each: int) -> None:
    """Pins the pods in their order, `each` to a node, and takes their gates away."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, pod: Object) -> None:
        async with turn:
            await api.patch(f"{PODS}/{pod['metadata']['name']}", pin(nodes[number // each]))

    await asyncio.gather(*(one(number, pod) for number, pod in enumerate(pods)))


def pin(node: str) -> dict[str, Any]:
    """A strategic merge."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        "spec": {
            "schedulingGates": [{"$patch": "delete", "name": GATE}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        }
    }
