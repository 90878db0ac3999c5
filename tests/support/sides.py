"""What runs beside what, with `-m plane… -n 3 --dist loadscope`: tests that train on one side, all others on the other,
and pieces for each process that has none or is done.

Each process has a control plane of its own and goes from folder to folder, as one process would. Tests that train wait
for processes to start most of the time, but should not train two at a time on two cores; so they are never dealt out one
by one, but for a few that take little. Stories wait for most of their time, which is why there are three processes for
two cores. Sides and pieces are dealt out in the order of their table, which is why collected tests are put into it and
`--no-loadscope-reorder` is said. (Groups by marker, `--dist loadgroup`, would say the same: pytest-xdist 3.8 keeps a
test's group where pytest 9.2 does not look for it, so all would be dealt out one by one.)
"""

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

TRAINS: Final = (
    "tests/stories/elastic/horovod/test_agent.py",
    "tests/stories/elastic/horovod/test_standin.py",
    "tests/stories/elastic/horovod/test_runtime.py",
    "tests/bench/demo/test_demo.py::test_elastic_act",
    "tests/stories/elastic/test_examples.py",
    "tests/stories/elastic/test_growth.py",
    "tests/stories/elastic/test_pauses.py",
    "tests/stories/elastic/test_real_losses.py",
    "tests/stories/elastic/test_setup.py",
    "tests/stories/elastic/test_stock.py",
    "tests/stories/elastic/test_stragglers.py",
)
"""What the names of tests begin with in which workers train with TensorFlow, or with both frameworks."""

BREAKING: Final = tuple(
    f"tests/stories/test_{name}.py"
    for name in ("accidents", "kills", "outages", "preemption", "queue", "shares", "turns")
)
"""Stories whose Gangwright is the frail one."""

PIECES: Final = {
    "stories that break something": BREAKING,
    "stories": ("tests/stories/test_",),
    "stories of elastic jobs": ("tests/stories/elastic/test_",),
    "stories of bad workers": (
        "tests/stories/elastic/test_bad_workers.py",
        "tests/stories/elastic/test_intruders.py",
    ),
    "a row of sizes": ("tests/stories/elastic/test_row.py",),
    "experiments": ("tests/stories/elastic/test_experiments.py",),
}
"""Parts that any process may have, in the order in which they are dealt out → what the names of their tests begin with.
A process that has two tests left, or less, is given the next one."""

LIGHT: Final = (
    "tests/stories/elastic/horovod/test_frameworks.py",
    "tests/stories/elastic/horovod/test_torch.py",
)
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
    """The piece that a test belongs to, or its side, by the longest name that fits."""
    named = {name: piece for piece, names in PIECES.items() for name in names}
    sides = {**dict.fromkeys(TRAINS, "training"), **named}
    found = [name for name in sides if nodeid.startswith(name)]
    return sides[max(found, key=len)] if found else "placing"


def in_order(items: list[pytest.Item]) -> None:
    """Puts tests into the order in which they are dealt out; those of one side or piece stay as they were."""
    items.sort(key=lambda item: ORDER.index(part(item.nodeid)))


def unplaced(items: list[pytest.Item]) -> list[str]:
    """The names of tests that train and that no table knows. Other stories of elastic jobs have Horovod's stand-in."""
    known = (*TRAINS, *LIGHT, *PIECES["experiments"], *PIECES["stories of elastic jobs"])
    return [
        item.nodeid
        for item in items
        if MAKES_WORKERS.intersection(getattr(item, "fixturenames", ())) and not item.nodeid.startswith(known)
    ]
