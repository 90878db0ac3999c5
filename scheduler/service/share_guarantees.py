"""Whether all that `queue.shares` guarantees is there at all.

Lives here: what is guaranteed to all namespaces together, next to what the nodes have, and the log line where it is
more. Never here: what a guarantee allows (ledger, engine). Nothing is refused: nodes come and go, and each guarantee by
itself is kept for as long as the others' room lies idle.
"""

from collections import Counter
from collections.abc import Mapping

import structlog

from scheduler.engine import Engine
from scheduler.model.queueing import Share
from scheduler.model.resources import CPU

_log = structlog.get_logger("settings")


class ShareGuarantees:
    """Looked at every few seconds, so that a start, a changed file and nodes that leave are all the same."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[str, int] = {}
        """By resource of which too much is guaranteed: how much, when that was told."""

    def check(self) -> Mapping[str, float]:
        """By resource, the share of what the nodes have that is guaranteed; above 1 it is told once, in the log."""
        if not self._engine.ledger.synced:
            return {}
        picture, sums = self._engine.snapshot(), together(self._engine.policy.shares)
        has = dict(zip(picture.axis.names, picture.capacity.sum(axis=0).tolist(), strict=True))
        above = {name: least for name, least in sums.items() if least > has.get(name, 0.0)}
        for name, least in above.items():
            if self._told.get(name) != least:
                _log.warning(
                    "more is guaranteed than the nodes have",
                    kind=("guaranteed", name),
                    field=f"queue.shares.*.guaranteed.{name}",
                    resource=name,
                    guaranteed=_shown(name, least),
                    capacity=_shown(name, has.get(name, 0.0)),
                    remedy="guarantee less of it, or add nodes: not every namespace can have its own at once",
                )
        self._told = above
        return {
            name: least / has[name] if has.get(name) else float("inf")
            for name, least in sums.items()
            if least
        }


def together(shares: Mapping[str, Share]) -> Mapping[str, int]:
    """By resource, what is guaranteed to all namespaces."""
    sums: Counter[str] = Counter()
    for share in shares.values():
        sums.update(dict(share.guaranteed))
    return sums


def _shown(resource: str, amount: float) -> float:
    """As people write it: CPU in cores."""
    return amount / 1000 if resource == CPU else amount
