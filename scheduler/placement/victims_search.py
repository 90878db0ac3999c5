"""One question about victims: who may leave, at what cost, for which seats; and one answer to it.

Lives here: what every step of the search for an answer needs.
Never here: the search itself (victims_cover, victims_improve).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.model.cluster import Mask
from scheduler.model.resources import Vector
from scheduler.placement.victims import Entries, Price, Standing
from scheduler.placement.victims_patterns import Ways, ways
from scheduler.placement.victims_seats import Ask, Trimming


@dataclass(frozen=True, slots=True)
class Answer:
    """A set bool[u] that suffices, and its price."""

    price: Price
    taken: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Search:
    """The cheapest victims on top of those who are `fixed`, among those who are `usable` (bool[u]).

    cost: float64[u], of a gang with its surplus.  whole: the entries of everybody usable.
    """

    standing: Standing
    ask: Ask
    fixed: Mask
    usable: Mask
    cost: Vector
    whole: Entries

    def spent(self, taken: Mask) -> float:
        """What the set costs on top of those who are fixed, a gang's surplus counted once."""
        new = taken & ~self.fixed & ~self.standing.forced(taken)
        return float(self.cost[new].sum())

    def _split(self) -> NDArray[np.int64]:
        """int64[e]: on how many nodes of its domain the unit of each entry stands."""
        keys = self.whole.owner * (self.ask.domains + 1) + self.ask.domain[self.whole.row] + 1
        _, where, count = np.unique(keys, return_inverse=True, return_counts=True)
        split: NDArray[np.int64] = count[where]
        return split

    def shares(self) -> Vector:
        """float64[e]: what each entry costs, in equal parts of its unit's cost in each domain."""
        shares: Vector = self.cost[self.whole.owner] / self._split()
        return shares

    def ways(self) -> Ways:
        """The ways of all nodes."""
        room, leader = self.standing.room(self.fixed), self.standing.leader
        return ways(room, self.whole, leader, self.ask, self.shares(), self._split() == 1)

    def trimmed(self, inside: Mask, taken: Mask, *, twice: bool = False) -> Answer | None:
        """The set without whoever is not needed; None when it does not suffice. Whoever was fixed stays in.

        inside: bool[n], the domain.  twice: in two orders, of which the better is kept.
        """
        answers = []
        for per_seat in (True, False)[: 1 + twice]:
            trimming = Trimming(self.standing, self.ask, inside, taken)
            if trimming.excess < 0:
                return None
            left = trimming.run(self.cost, per_seat=per_seat, kept=self.fixed)
            answers.append(Answer(self.standing.price(left), left))
        return min(answers, key=lambda answer: answer.price)


def search_of(standing: Standing, ask: Ask, level: int, fixed: Mask) -> Search:
    """Among all up to this level, where those of this level are what costs."""
    usable = (standing.reach <= level) & ~fixed
    whole = standing.whole(fixed)
    return Search(standing, ask, fixed, usable, standing.cost(level, fixed), whole.of(usable[whole.owner]))
