"""The API server's audit log, read as values: who did what, and what was he told?"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any, Final

LONGEST: Final = 1 << 20
"""Bytes of a line, by far: it tells who asked for what and what he was told, not the objects themselves."""


@dataclass(frozen=True)
class Request:
    """One answered request."""

    user: str
    agent: str
    verb: str
    resource: str
    """`pods`, `pods/eviction`, `podgroups.scheduling.k8s.io`; empty for paths that are no resource."""
    namespace: str
    name: str
    path: str
    code: int
    message: str = ""
    """Why it was refused."""


class Audit:
    """Requests since the plane came up, or since a `mark`."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def mark(self) -> int:
        """A place in the log, for `requests(since=…)`: where its last whole line ends, for the next may be half written."""
        if not self._log.exists():
            return 0
        with self._log.open("rb") as log:
            end = log.seek(0, SEEK_END)
            begin = log.seek(max(0, end - LONGEST))
            half = log.read(end - begin).rpartition(b"\n")[2]  # and nothing that was written meanwhile
        return end - len(half)

    def requests(self, user: str | None = None, *, since: int = 0) -> Iterator[Request]:
        """What `user` (by default anybody) asked, oldest first; without the last, if it is half written."""
        with self._log.open("rb") as lines:
            lines.seek(since)
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                request = _request(json.loads(line))
                if user is None or request.user == user:
                    yield request

    def refused(self, user: str, *, since: int = 0) -> list[Request]:
        """What RBAC or an admission policy forbade this user (403)."""
        return [request for request in self.requests(user, since=since) if request.code == 403]

    def used(self, user: str, *, since: int = 0) -> set[tuple[str, str]]:
        """The (verb, resource) pairs this user was granted: what its role must hold, and needs to hold no more."""
        requests = self.requests(user, since=since)
        return {
            (request.verb, request.resource)
            for request in requests
            if request.resource and request.code != 403
        }


def _request(entry: dict[str, Any]) -> Request:
    target = entry.get("objectRef", {})
    return Request(
        user=entry.get("user", {}).get("username", ""),
        agent=entry.get("userAgent", ""),
        verb=entry["verb"],
        resource=_resource(target),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        path=entry["requestURI"],
        code=entry.get("responseStatus", {}).get("code", 0),
        message=entry.get("responseStatus", {}).get("message", ""),
    )


def _resource(target: dict[str, str]) -> str:
    kind = ".".join(part for part in (target.get("resource"), target.get("apiGroup")) if part)
    return "/".join(part for part in (kind, target.get("subresource")) if part)
