"""Who runs beside whom, with `-m plane -n 2 --dist loadscope`: tests that train on one side, all others on the other.

Each side has a process and control planes of its own and goes from folder to folder, as one process would. Those that
train wait for processes to start most of the time, but should not train two at a time on two cores; so they are never
dealt out one by one, but for a few that take little. The last stories that train are for whoever is done first, lest one
side waits for the other: the longest one, then the rest, in the order in which they are collected (this is what
`--no-loadscope-reorder` is for). (Groups by marker, `--dist loadgroup`, would say the same: pytest-xdist 3.8 keeps a
test's group where pytest 9.2 does not look for it, so all would be dealt out one by one.)
"""

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

TRAINS: Final = (
    "tests/bench/test_elastic_real.py",
    "tests/elastic/agent/test_horovod.py",
    "tests/elastic/boot/test_real.py",
    "tests/plane/test_demo.py::test_elastic_act",
    "tests/stories/elastic/",
)
"""What the names of tests begin with in which real workers train."""

LAST: Final = {
    "tests/stories/elastic/test_row.py": "a row of sizes",
    "tests/stories/elastic/test_sizes.py": "sizes",
    "tests/stories/elastic/test_stock.py": "sizes",
    "tests/stories/elastic/test_stragglers.py": "sizes",
}
"""Modules of stories that train, for whoever is done first → the piece they are dealt out in."""

LIGHT: Final = ("tests/elastic/boot/test_frameworks.py", "tests/elastic/boot/test_torch.py")
"""Of single processes, or of PyTorch, which starts in a third of TensorFlow's time: these are among all others."""

MAKES_WORKERS: Final = frozenset({"horovod_python", "torch_python"})
"""The fixtures of those tests."""

ASTRAY: Final = pytest.StashKey[list[str]]()
"""Tests that were collected and train, and whose names begin like none of these."""


class Sides(LoadScopeScheduling):
    """Deals out whole sides, and what comes last."""

    def _split_scope(self, nodeid: str) -> str:
        side = "training" if nodeid.startswith(TRAINS) else "placing"
        return LAST.get(nodeid.partition("::")[0], side)


def unplaced(items: list[pytest.Item]) -> list[str]:
    """The names of tests that train and that neither table knows."""
    return [
        item.nodeid
        for item in items
        if MAKES_WORKERS.intersection(getattr(item, "fixturenames", ()))
        and not item.nodeid.startswith(TRAINS + LIGHT)
    ]
