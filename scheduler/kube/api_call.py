"""A request as a value, made: whoever decides on it knows no client, and whoever makes it need not know what it
means.
"""

from collections.abc import Mapping
from typing import Protocol

from scheduler.kube.client import Client


class Call(Protocol):
    """One request; `objects.patches` and the elastic master have their own."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def content_type(self) -> str: ...
    @property
    def params(self) -> Mapping[str, str]: ...


async def make(client: Client, call: Call, within: float) -> bytes:
    """The body of the answer, within so many seconds. Raises as `Client.request`."""
    return await client.request(
        call.method,
        call.path,
        params=call.params,
        body=call.body,
        content_type=call.content_type,
        timeout=within,
    )
