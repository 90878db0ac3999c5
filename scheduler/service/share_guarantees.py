"""Whether the cluster has as much as `queue.shares` guarantees.

Lives here: the sum of all guarantees compared with the capacity of the nodes, and a log line if the sum is larger.
Never here: what a guarantee allows (ledger, engine). Nothing is rejected: nodes come and go, and each single guarantee
is kept while the others' capacity is idle.
"""

from collections import Counter
from collections.abc import Mapping

import structlog

from scheduler.engine import Engine
from scheduler.model.queueing import Share
from scheduler.model.resources import CPU

_log = structlog.get_logger("settings")


class ShareGuarantees:
    """Checked every few seconds, so that a start, a changed file and removed nodes are all covered."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[str, int] = {}
        """The guaranteed amount at the last log line, by overcommitted resource."""

    def check(self) -> Mapping[str, float]:
        """The guaranteed share of the capacity, by resource. A share above 1 is logged once."""
        if not self._engine.ledger.synced:
            return {}
        picture, sums = self._engine.snapshot(), together(self._engine.policy.shares)
        has = dict(zip(picture.axis.names, picture.capacity.sum(axis=0).tolist(), strict=True))
        above = {name: least for name, least in sums.items() if least > has.get(name, 0.0)}
        for name, least in above.items():
            if self._told.get(name) != least:
                _log.warning(
                    "guarantees exceed the capacity of the nodes",
                    kind=("guaranteed", name),
                    field=f"queue.shares.*.guaranteed.{name}",
                    resource=name,
                    guaranteed=_shown(name, least),
                    capacity=_shown(name, has.get(name, 0.0)),
                    remedy="lower the guarantees or add nodes; not all namespaces can use theirs at the same time",
                )
        self._told = above
        return {
            name: least / has[name] if has.get(name) else float("inf")
            for name, least in sums.items()
            if least
        }


def together(shares: Mapping[str, Share]) -> Mapping[str, int]:
    """The sum of the guarantees of all namespaces, by resource."""
    sums: Counter[str] = Counter()
    for share in shares.values():
        sums.update(dict(share.guaranteed))
    return sums


def _shown(resource: str, amount: float) -> float:
    """The amount in the unit that users write: CPU in cores."""
    return amount / 1000 if resource == CPU else amount
