"""A Lease of coordination.k8s.io: its path, and the fields that are read and written.

Lives here: its JSON. Never here: the consequences of its holder (`lease_follower`, `leader_election`).
"""

from typing import Final, NamedTuple

import msgspec

from scheduler import errors
from scheduler.kube.changes import BROKEN
from scheduler.kube.client import Client

DURATION: Final = 15
"""Seconds a Lease is valid if it does not specify its duration (default `leaseDuration` of kube-scheduler)."""


class LeaseName(NamedTuple):
    """The namespace and name of a Lease."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"


class Record(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The holder, since when, and for how long (client-go: LeaderElectionRecord). Times are of the holder's clock."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    @property
    def holder(self) -> str:
        return self.holder_identity or ""

    @property
    def duration(self) -> int:
        return self.lease_duration_seconds or DURATION


class Meta(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


class Lease(msgspec.Struct, rename="camel", frozen=True):
    metadata: Meta = Meta()
    spec: Record = Record()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


async def read(client: Client, name: LeaseName, within: float = 10.0) -> Lease:
    """The Lease. within: seconds. Raises KubeError: NotFound if there is none, Garbled if the answer is not a Lease."""
    body = await client.request("GET", name.path, timeout=within)
    return decoded(f"GET {name.path}", body)


def decoded(call: str, body: bytes) -> Lease:
    """The Lease in an answer. Raises Garbled."""
    try:
        return msgspec.json.decode(body, type=Lease)
    except BROKEN as error:
        raise errors.Garbled(call, f"not a Lease: {error}") from error
