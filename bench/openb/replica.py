"""A cluster whose nodes a published policy chooses.

Scores are kept for each distinct demand. When such a pod arrives again, only the rows that changed since are scored again.
"""

from collections.abc import Sequence

import numpy as np

from bench.openb.books import Books, Ints, Shape
from bench.openb.policies import Policy
from scheduler.model.cluster import Node
from scheduler.model.demand import Demand


class _Ranked:
    """Scores[n] of one demand, below 0 where it does not fit, after the first `seen` changes."""

    def __init__(self, shape: Shape, size: int) -> None:
        self.shape = shape
        self.scores: Ints = np.full(size, -1)
        self.seen = 0
        self.full = False


class Replica:
    """A cluster that pods arrive in.

    drawn: equal scores are drawn at random for each pod. Otherwise the first of equal nodes wins, as in the published runs.
    """

    def __init__(self, own: Sequence[Node], policy: Policy, seed: int, *, drawn: bool = False) -> None:
        self.books = Books(own)
        self._names = [node.name for node in own]
        self._policy = policy
        self._drawn = drawn or policy.drawn
        self._chance = np.random.default_rng([seed, 1])  # another stream than the order of the nodes
        self._changed: list[int] = []
        self._ranked: dict[Demand, _Ranked] = {}
        self.gpus = float(self.books.devices.sum())

    def arrive(self, demand: Demand) -> str | None:
        """The node of the next pod. None: it fits on no node and is dropped."""
        ranked = self._ranked.get(demand)
        if ranked is None:
            ranked = self._ranked[demand] = _Ranked(Shape.of(demand), len(self.books))
            self._score(ranked, self.books.accepted(ranked.shape))
        if ranked.full:  # no pod departs
            return None
        self._refresh(ranked)
        row = self._best(ranked.scores)
        ranked.full = ranked.scores[row] < 0
        if ranked.full:
            return None
        device = self._policy.pick(self.books, row, ranked.shape, self._chance) if ranked.shape.shares else 0
        self.books.take(row, ranked.shape, device)
        self._changed.append(row)
        return self._names[row]

    def _refresh(self, ranked: _Ranked) -> None:
        if ranked.seen < len(self._changed):
            rows = np.unique(self._changed[ranked.seen :])
            self._score(ranked, rows[ranked.scores[rows] >= 0])

    def _score(self, ranked: _Ranked, rows: Ints) -> None:
        fit = self.books.fits(rows, ranked.shape)
        ranked.scores[rows[~fit]] = -1
        rows = rows[fit]
        if len(rows):
            ranked.scores[rows] = self._policy.score(self.books, rows, ranked.shape)
        ranked.seen = len(self._changed)

    def _best(self, scores: Ints) -> int:
        if not self._drawn:
            return int(scores.argmax())
        return int(self._chance.choice(np.flatnonzero(scores == scores.max())))
