"""Who answers: the status service that was named, or this program, from what its caller may read."""

from typing import Protocol

from scheduler.cli.options import Reach
from scheduler.status import shapes


class Source(Protocol):
    """What is asked about a cluster; both give the same shapes."""

    @property
    def now(self) -> float:
        """Seconds since the epoch, to which forecasts are compared."""

    def gangs(self, namespace: str | None = None) -> list[shapes.GangRow]: ...

    def queue(self) -> list[shapes.GangRow]: ...

    def gang(self, namespace: str, name: str) -> shapes.GangDetail | None: ...

    def nodes(self) -> shapes.NodeList: ...

    def fragmentation(self) -> dict[str, float]: ...

    def seats(self, namespace: str, name: str, /) -> dict[str, str]: ...

    def away(self) -> str:
        """Why nothing of this happens now; empty where somebody acts, or nobody can say."""


def source(reach: Reach) -> Source:
    """The one that was named; the cluster is read at once, the service only when it is asked."""
    if reach.server:
        from scheduler.cli.remote import Remote

        return Remote(reach)
    from scheduler.cli import live
    from scheduler.cli.answers import Answers

    found = live.reading(reach)
    return Answers(found.document(), away=found.away)
