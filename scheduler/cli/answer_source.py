"""Who answers: the status service that was named, or this program, from what its caller may read."""

from typing import Protocol

from scheduler.cli.options import Reach
from scheduler.status import response_schemas


class Source(Protocol):
    """What is asked about a cluster; both give the same shapes."""

    @property
    def now(self) -> float:
        """Seconds since the epoch, to which forecasts are compared."""

    def gangs(self, namespace: str | None = None) -> list[response_schemas.GangRow]: ...

    def queue(self) -> list[response_schemas.GangRow]: ...

    def gang(self, namespace: str, name: str) -> response_schemas.GangDetail | None: ...

    def nodes(self) -> response_schemas.NodeList: ...

    def fragmentation(self) -> dict[str, float]: ...

    def seats(self, namespace: str, name: str, /) -> dict[str, str]: ...

    def away(self) -> str:
        """Why nothing of this happens now; empty where somebody acts, or nobody can say."""


def source(reach: Reach) -> Source:
    """The one that was named; the cluster is read at once, the service only when it is asked."""
    if reach.server:
        from scheduler.cli.status_client import Remote

        return Remote(reach)
    from scheduler.cli import cluster_document
    from scheduler.cli.offline_answers import Answers

    found = cluster_document.reading(reach)
    return Answers(found.document(), away=found.away)
