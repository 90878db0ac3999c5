"""The score of FGD: the drop in the GPUs of a node that the expected pods cannot use.

Source: Weng et al., USENIX ATC '23, section 4, and its artifact.  Lives here: arithmetic of one node, for many at once.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from bench.openb.books import WHOLE, Books, Bools, Ints, Numbers, Shape

COVERED: Final = 0.95
"""Of all pods: how many have one of the shapes that count."""


def expected_shapes(pods: Sequence[Shape]) -> list[tuple[Shape, int]]:
    """The most frequent shapes that together cover enough pods, and how many pods have each. Memory does not count."""
    counted = Counter(Shape(pod.cpu, 0, pod.count, pod.part, pod.models) for pod in pods)
    ranked = sorted(
        counted.items(),
        key=lambda row: (row[1], row[0].cpu, row[0].part, row[0].count, "|".join(row[0].models)),
        reverse=True,
    )
    covered = np.cumsum([count for _, count in ranked])
    return ranked[: int(np.searchsorted(covered, COVERED * len(pods))) + 1]


class Fragmentation:
    """Of one list of expected pods.

    All sums are whole numbers below 2**53, so that a change of 0 is exactly 0.
    """

    def __init__(self, pods: Sequence[Shape]) -> None:
        shapes = expected_shapes(pods)
        self._pods = sum(count for _, count in shapes)
        self._without = float(sum(count for shape, count in shapes if not shape.count))
        asking = [(shape, count) for shape, count in shapes if shape.count]
        self._weights = np.array([count for _, count in asking], float)
        self._cpus = np.array([shape.cpu for shape, _ in asking])
        self._counts = np.array([shape.count for shape, _ in asking])
        self._parts, self._part = np.unique([shape.part for shape, _ in asking], return_inverse=True)
        self._models = [shape.models for shape, _ in asking]
        self._accepts: dict[tuple[str, ...], Bools] = {}

    def of(self, accepted: Bools, cpu: Ints, devices: Ints) -> Numbers:
        """float64[k]: GPUs of k nodes that the expected pods cannot use, thousandths times the expected pods.

        A node that does not fit a pod loses all of its free GPUs to it, otherwise the devices that are too full.
        A pod without GPU uses none.  accepted: bool[k, shapes].  cpu: int64[k].  devices: int64[k, d].
        """
        total = devices.sum(axis=1).astype(float)
        fit = devices[:, :, None] >= self._parts
        lost = total[:, None] - (devices[:, :, None] * fit).sum(axis=1)
        enough = fit.sum(axis=1)[:, self._part] >= self._counts
        usable = enough & (cpu[:, None] >= self._cpus) & accepted
        each = np.where(usable, lost[:, self._part], total[:, None])
        sums: Numbers = each @ self._weights + total * self._without
        return sums

    def accepted(self, books: Books, rows: Ints) -> Bools:
        """bool[len(rows), shapes]: which expected pods with GPUs accept the model of each row."""
        if books.names not in self._accepts:
            cells = [not own or name in own for name in books.names for own in self._models]
            self._accepts[books.names] = np.array(cells, bool).reshape(len(books.names), len(self._models))
        return self._accepts[books.names][books.models[rows]]

    def by_device(self, books: Books, rows: Ints, shape: Shape) -> Ints:
        """int64[len(rows), d]: the score of each device that the pod could share, and -1 where it does not fit."""
        left = books.devices[rows]
        accepted, cpu = self.accepted(books, rows), books.cpu[rows]
        before = self.of(accepted, cpu, left)
        same = np.tril(left[:, :, None] == left[:, None, :], -1).any(axis=2)
        row, device = np.nonzero((left >= shape.part) & ~same)
        after = left[row]
        after[np.arange(len(row)), device] -= shape.part
        scores = np.full(left.shape, -1)
        scores[row, device] = self._scored(before[row] - self.of(accepted[row], cpu[row] - shape.cpu, after))
        return scores

    def score(self, books: Books, rows: Ints, shape: Shape) -> Ints:
        """Of rows that fit the pod."""
        if shape.shares:
            best: Ints = self.by_device(books, rows, shape).max(axis=1, initial=-1)
            return best
        left = books.devices[rows]
        idle = left == WHOLE
        after = left - WHOLE * (idle & (np.cumsum(idle, axis=1) <= shape.count))
        accepted, cpu = self.accepted(books, rows), books.cpu[rows]
        return self._scored(self.of(accepted, cpu, left) - self.of(accepted, cpu - shape.cpu, after))

    def _scored(self, drop: Numbers) -> Ints:
        """A sigmoid of the drop in whole GPUs, from 0 to 100."""
        scores: Ints = (100 / (1 + np.exp(-drop / self._pods / WHOLE))).astype(np.int64)
        return scores

    def pick(self, books: Books, row: int, shape: Shape, _chance: np.random.Generator) -> int:
        """The device with the best score, the first of equal ones."""
        return int(self.by_device(books, np.array([row]), shape)[0].argmax())
