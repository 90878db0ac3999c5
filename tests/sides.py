"""Who runs beside whom, with `-m plane -n 2 --dist loadscope`: tests that train on one side, all others on the other,
and after them pieces for whoever is done first, lest one side waits for the other.

Each side has a process and control planes of its own and goes from folder to folder, as one process would. Those that
train wait for processes to start most of the time, but should not train two at a time on two cores; so they are never
dealt out one by one, but for a few that take little. The pieces are dealt out in the order of their table, which is why
collected tests are put into it and `--no-loadscope-reorder` is said. (Groups by marker, `--dist loadgroup`, would say the
same: pytest-xdist 3.8 keeps a test's group where pytest 9.2 does not look for it, so all would be dealt out one by one. A
third process kept two cores no busier: tests that need no plane take what the two leave.)
"""

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

TRAINS: Final = (
    "tests/bench/test_elastic_real.py",
    "tests/elastic/agent/test_horovod.py",
    "tests/elastic/agent/test_standin.py",
    "tests/elastic/boot/test_real.py",
    "tests/plane/test_demo.py::test_elastic_act",
    "tests/stories/elastic/",
)
"""What the names of tests begin with in which real workers train."""

PIECES: Final = {
    "stories": ("tests/stories/test_",),
    "a row of sizes": ("tests/stories/elastic/test_row.py",),
    "sizes": (
        "tests/stories/elastic/test_sizes.py",
        "tests/stories/elastic/test_stock.py",
        "tests/stories/elastic/test_stragglers.py",
    ),
    "experiments": ("tests/bench/test_elastic_real.py",),
}
"""Pieces of the two sides, in the order in which they are dealt out → what the names of their tests begin with. A process
that has two tests left, or less, is given the next one.

Those that place are done with the rest of their side long before the others, and so have the stories.
"""

LIGHT: Final = ("tests/elastic/boot/test_frameworks.py", "tests/elastic/boot/test_torch.py")
"""Of single processes, or of PyTorch, which starts in a third of TensorFlow's time: these are among all others."""

MAKES_WORKERS: Final = frozenset({"horovod_python", "torch_python"})
"""The fixtures of those tests."""

ASTRAY: Final = pytest.StashKey[list[str]]()
"""Tests that were collected and train, and whose names begin like none of these."""

ORDER: Final = ("training", "placing", *PIECES)
"""All that is dealt out: the sides, and then the pieces."""


class Sides(LoadScopeScheduling):
    """Deals out what is left of the sides, and the pieces."""

    def _split_scope(self, nodeid: str) -> str:
        return part(nodeid)


def part(nodeid: str) -> str:
    """The piece that a test belongs to, or its side."""
    for piece, names in PIECES.items():
        if nodeid.startswith(names):
            return piece
    return "training" if nodeid.startswith(TRAINS) else "placing"


def in_order(items: list[pytest.Item]) -> None:
    """Puts tests into the order in which they are dealt out; those of one side or piece stay as they were."""
    items.sort(key=lambda item: ORDER.index(part(item.nodeid)))


def unplaced(items: list[pytest.Item]) -> list[str]:
    """The names of tests that train and that neither table knows."""
    return [
        item.nodeid
        for item in items
        if MAKES_WORKERS.intersection(getattr(item, "fixturenames", ()))
        and not item.nodeid.startswith(TRAINS + LIGHT)
    ]
