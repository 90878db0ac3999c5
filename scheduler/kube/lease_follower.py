"""Whether the kube-scheduler beside us leads: it holds the Lease, we only look.

Lives here: a poll of one Lease, and a fence on the monotonic clock. Never here: a write. Of several replicas only
the one whose kube-scheduler leads may act on the cluster. The Lease's own times are of other machines' clocks and
are never compared with ours; what counts is that the record *changed*, and when we had last seen it unchanged: the
renewal is no older than that. So a process that slept, or lost the API server, stops acting by itself, no later
than another replica may take over.

It may act again where no other replica held the Lease meanwhile: a kube-scheduler that is started again, or that was
cut off, takes back what it had. `leaseTransitions` tells: each new holder adds one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Never, TypeVar

import msgspec

from scheduler import errors
from scheduler.clock import steady
from scheduler.kube.changes import BROKEN
from scheduler.kube.client import Client

T = TypeVar("T")

POLL = 0.5
"""Seconds between two looks; kube-scheduler renews as often (`retryPeriod` in extender_config)."""

LOOK_LIMIT = 2.0
"""Seconds for one look: a third of the usual lease, so that one may fail."""

AFTER_FAULT = 2.0
"""Seconds until the next look when one failed: an API server in trouble is not stormed (see `retry_backoff`)."""

DURATION = 15
"""Seconds a lease holds if it does not say (`leaseDuration` of kube-scheduler by default)."""


class LeaseName(NamedTuple):
    """Where the Lease is found."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"


class Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    uid: str = ""
    """Of the Lease itself: one that was deleted and made again counts its transitions from the start."""


class Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class Lease(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: Spec = Spec()


class Follower:
    """Answers `acting(now)` while `run` looks at the Lease.

    kube-scheduler's identity is its hostname, an underscore and a random id; inside a Pod both containers have the
    Pod's name as `hostname`. Without a lease (leader election is off: a single replica) the answer is always yes,
    and `run` asks `/readyz` instead, so that the client's `last_answer` keeps telling whether the API server lives.
    """

    def __init__(
        self,
        client: Client,
        lease: LeaseName | None,
        hostname: str,
        *,
        clock: Callable[[], float] = steady,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.holder = ""
        """The identity that holds the lease, as last seen."""
        self.fault: errors.KubeError | None = None
        """Why the last look failed; None when it did not."""
        self.passed_on = 0
        """Grows whenever another replica holds the Lease, or may have held it between two looks."""
        self._client = client
        self._lease = lease
        self._ours = f"{hostname}_"
        self._clock = clock
        self._sleep = sleep
        self._record: Spec | None = None
        self._unchanged = float("-inf")
        self._valid_until = float("-inf")

    def acting(self, now: float) -> bool:
        """True only while our own kube-scheduler surely holds the lease; `now` is of the same clock as ours."""
        return self._lease is None or (self.holder.startswith(self._ours) and now < self._valid_until)

    async def run(self) -> Never:
        """Look again and again until cancelled; faults of the API server never end it."""
        while True:
            self.fault = await self._look()
            await self._sleep(POLL if self.fault is None else AFTER_FAULT)

    async def _look(self) -> errors.KubeError | None:
        path = self._lease.path if self._lease else "/readyz"
        began = self._clock()
        try:
            body = await self._client.request("GET", path, timeout=LOOK_LIMIT)
            if self._lease:
                lease = decoded(Lease, f"GET {path}", body)
                self._observe(msgspec.structs.replace(lease.spec, uid=lease.metadata.uid), began)
        except errors.NotFound as error:
            self._observe(None, began)
            return error
        except errors.KubeError as error:
            return error
        return None

    def _observe(self, record: Spec | None, began: float) -> None:
        """Take in what a look that began at `began` showed.

        A changed record was renewed after the last look that still showed the old one began. The very first record
        proves nothing: it may be what a dead process left behind.
        """
        self.passed_on += passed_on(self._record, record, self._ours)
        if record is None:
            self.holder, self._valid_until = "", float("-inf")
        elif self._record is not None and record != self._record:
            self._valid_until = self._unchanged + (record.lease_duration_seconds or DURATION)
        if record is not None:
            self.holder = record.holder_identity or ""
        self._record, self._unchanged = record, began


def passed_on(before: Spec | None, now: Spec | None, ours: str) -> bool:
    """Whether between two looks another than `ours`, the beginning of an identity, held the Lease, or may have.

    A holder that gives it back keeps the count of transitions, and each new holder adds one. So the one that may have
    been added is our own. A Lease that was made again proves nothing.
    """
    if before is None or now is None or before.uid != now.uid:
        return True
    holder = now.holder_identity or ""
    if holder and not holder.startswith(ours):
        return True
    taken = int(bool(holder) and holder != before.holder_identity)
    return (now.lease_transitions or 0) - (before.lease_transitions or 0) != taken


def decoded(form: type[T], call: str, body: bytes) -> T:
    """The Lease, of which this form tells what is read. Raises Garbled."""
    try:
        return msgspec.json.decode(body, type=form)
    except BROKEN as error:
        raise errors.Garbled(call, f"not a Lease: {error}") from error
