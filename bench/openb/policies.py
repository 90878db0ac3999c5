"""The policies of the published runs: whole scores from 0 to 100, higher is better, and the device inside the node.

Written from their description in "Beware of Fragmentation" (Weng et al., USENIX ATC '23) and in its artifact,
hkust-adsl/kubernetes-scheduler-simulator at 8f3d6417. Scores are truncated there too, so that many nodes tie.
Lives here: scores of rows. Never here: which rows fit (books), and which of them is taken (replica).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from bench.openb.books import WHOLE, Books, Ints, Shape
from bench.openb.fgd import Fragmentation
from bench.traces import TraceError

MOST_CPU: Final = 128_000
MOST_GPU: Final = 8 * WHOLE
"""CPU and GPU thousandths of the largest node: the units of both vector scores."""

Score: TypeAlias = Callable[[Books, Ints, Shape], Ints]
"""Of rows that fit the pod: int64[len(rows)]."""

Pick: TypeAlias = Callable[[Books, int, Shape, np.random.Generator], int]
"""The device of a row for a pod that shares one."""


def tightest(books: Books, row: int, shape: Shape, _chance: np.random.Generator) -> int:
    """The device with the least free part that fits, the first of equal ones."""
    left = books.devices[row]
    return int(np.argmin(np.where(left >= shape.part, left, WHOLE + 1)))


def drawn(books: Books, row: int, shape: Shape, chance: np.random.Generator) -> int:
    """Any device that fits."""
    return int(chance.choice(np.flatnonzero(books.devices[row] >= shape.part)))


@dataclass(frozen=True, slots=True)
class Policy:
    """score, pick: which node, and which device of it.  drawn: equal scores are drawn, and not ended by the order of rows."""

    score: Score
    pick: Pick = tightest
    drawn: bool = False


def nothing(_books: Books, rows: Ints, _shape: Shape) -> Ints:
    """Each node is as good as the others."""
    return np.zeros(len(rows), np.int64)


def dot_product(books: Books, rows: Ints, shape: Shape) -> Ints:
    """Least dot product of free and requested vector."""
    cpu = books.cpu[rows] / MOST_CPU * (shape.cpu / MOST_CPU)
    gpu = books.devices[rows].sum(axis=1) / MOST_GPU * (shape.gpu / MOST_GPU)
    scores: Ints = (100 * (1 - (cpu + gpu) / 2)).astype(np.int64)
    return scores


def best_fit(books: Books, rows: Ints, shape: Shape) -> Ints:
    """Least capacity left, CPU and GPU weighted by half."""
    cpu = (books.cpu[rows] - shape.cpu) / MOST_CPU * 0.5
    gpu = (books.devices[rows].sum(axis=1) - shape.gpu) / MOST_GPU * 0.5
    scores: Ints = ((1 - (cpu + gpu)) * 100).astype(np.int64)
    return scores


def packing(books: Books, rows: Ints, shape: Shape) -> Ints:
    """Devices in use before idle devices of nodes in use before idle nodes. Pods without GPU rank no node.

    50 … 100: less what its devices have free.  33 … 50: less the idle devices that it starts.  Up to 33: less the
    devices of an idle node.
    """
    if not shape.count:
        return nothing(books, rows, shape)
    left = np.sort(books.devices[rows], axis=1)
    idle = (left == WHOLE).sum(axis=1)
    fit = left >= shape.part
    chosen = fit & (np.cumsum(fit, axis=1) <= shape.count)
    started = (chosen & (left == WHOLE)).sum(axis=1)
    free = (left * chosen * 100 // WHOLE).sum(axis=1)
    used = np.where(started > 0, np.maximum(50 - started, 33), np.maximum(100 - free // 10, 50))
    scores: Ints = np.where(idle == books.count[rows], np.maximum(33 - idle, idle), used)
    return scores


def clustering(books: Books, rows: Ints, shape: Shape) -> Ints:
    """Nodes with pods of this sort alone, then with this sort too, then idle nodes, then others; each class by allocation."""
    if not shape.count:
        return nothing(books, rows, shape)
    kinds = books.kinds[rows]
    sorts, same = kinds.sum(axis=1), kinds[:, shape.kind]
    rank = np.where(same, np.where(sorts == 1, 75, 50), np.where(sorts == 0, 25, 0))
    scores: Ints = rank + 25 * (MOST_GPU - books.devices[rows].sum(axis=1)) // MOST_GPU
    return scores


FIRST_FIT: Final = "FirstFit"
"""The first node that fits, in the fixed order. Not published: it shows how much of a result is the tie rule."""

_SCORES: Final = {
    "Random": Policy(nothing, drawn, drawn=True),
    "DotProd": Policy(dot_product),
    "GpuClustering": Policy(clustering),
    "GpuPacking": Policy(packing),
    "BestFit": Policy(best_fit),
    FIRST_FIT: Policy(nothing),
}
POLICIES: Final = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
"""In the order of the publication."""


def policy(name: str, expected: Sequence[Shape]) -> Policy:
    """A published policy, or first fit.  expected: the shapes of all pods of the mix, which FGD knows beforehand.

    Raises TraceError.
    """
    if name == "FGD":
        fragmentation = Fragmentation(expected)
        return Policy(fragmentation.score, fragmentation.pick)
    if name not in _SCORES:
        raise TraceError(f"policy: {name!r} not found. Use one of {', '.join((*POLICIES, FIRST_FIT))}.")
    return _SCORES[name]
