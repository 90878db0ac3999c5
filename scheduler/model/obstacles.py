"""What is in the way, in words. By itself, since people's commands say it too and load no numpy for that."""

from collections.abc import Mapping
from typing import Final

NO_NODES: Final = "no nodes"
"""The one obstacle that rules out no node: there is none."""


def ruled_out(blocked: Mapping[str, int]) -> str:
    """Of obstacles and how many nodes each rules out: "cordon rules out 1 node, room rules out 4 nodes"; empty for
    nothing.
    """
    if NO_NODES in blocked:
        return "the cluster has no nodes that Gangwright can see"
    return ", ".join(
        f"{kind} rules out {count} node{'s' if count != 1 else ''}" for kind, count in sorted(blocked.items())
    )
