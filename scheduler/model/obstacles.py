"""What is in the way, in words. By itself, since people's commands say it too and load no numpy for that."""

from collections.abc import Mapping


def ruled_out(blocked: Mapping[str, int]) -> str:
    """Of obstacles and how many nodes each rules out: "cordon rules out 1 node, room rules out 4 nodes"; empty for
    nothing.
    """
    return ", ".join(
        f"{kind} rules out {count} node{'s' if count != 1 else ''}" for kind, count in sorted(blocked.items())
    )
