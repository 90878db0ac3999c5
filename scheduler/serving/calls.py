"""What an HTTP edge asks of the API server: a call, whoever makes it.

Lives here: the shape of `scheduler.kube.client.Client.request`, for edges that must not know that room. Never here: a
call.
"""

from collections.abc import Mapping
from typing import Protocol


class Calls(Protocol):
    """How the API server is asked. Raises KubeError."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 10.0,  # noqa: ASYNC109 - a property of the call, not a way to stop it
    ) -> bytes: ...
