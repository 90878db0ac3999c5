"""A Lease of coordination.k8s.io: where it is, what is read of it and written to it.

Lives here: its JSON. Never here: what follows from who holds it (`lease_follower`, `leader_election`).
"""

from typing import Final, NamedTuple

import msgspec

from scheduler import errors
from scheduler.kube.changes import BROKEN
from scheduler.kube.client import Client

DURATION: Final = 15
"""Seconds a Lease holds if it does not say (`leaseDuration` of kube-scheduler by default)."""


class LeaseName(NamedTuple):
    """Where the Lease is found."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"


class Record(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Who holds it, since when, and for how long (client-go: LeaderElectionRecord). Times are of the holder's clock."""

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
    """The Lease. within: seconds. Raises KubeError: NotFound where there is none, Garbled where it is none."""
    body = await client.request("GET", name.path, timeout=within)
    return decoded(f"GET {name.path}", body)


def decoded(call: str, body: bytes) -> Lease:
    """The Lease in an answer. Raises Garbled."""
    try:
        return msgspec.json.decode(body, type=Lease)
    except BROKEN as error:
        raise errors.Garbled(call, f"not a Lease: {error}") from error
