"""What it takes to know 5,000 nodes and 50,000 pods: memory in MiB, and seconds."""

from bench.micro.canned import NODES, PODS
from bench.micro.children import child
from scheduler.kube.listing import PAGE

TRIES = 3


def cost(tries: int = TRIES) -> tuple[float, float]:
    """MiB and seconds, each of its best try. Raises RuntimeError when something was not read."""
    with child("bench.micro.canned", str(PAGE)) as server:
        found = []
        for _ in range(tries):
            with child("bench.micro.reading", server["url"]) as said:
                if (said["nodes"], said["pods"]) != (NODES, PODS):
                    raise RuntimeError(f"{NODES} nodes and {PODS} pods were to be read, and {said} were")
                found.append(said)
    return min(said["mib"] for said in found), min(said["seconds"] for said in found)
