"""Leader election with a Lease: one of several replicas is active, and the others know when they may take over.

Lives here: taking, renewing and releasing one Lease. Never here: the work of the holder (`lease_follower` follows the
Lease of another program). The rules are those of client-go's leader election, so that either may take the other's
Lease. A record that has not changed for its own duration has no holder, measured on the *local* clock: times from other
machines are never compared with it. A holder acts for less than that duration after its last known renewal. Every write
names the version that it replaces.

Why an identity may reappear: in a Pod it is the Pod's name, and the kubelet runs one process of a container at a time.
So a restarted container continues at once instead of waiting for its own Lease to expire.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Never

import msgspec

from scheduler import errors
from scheduler.clock import steady
from scheduler.kube.client import Client
from scheduler.kube.lease_record import DURATION, Lease, LeaseName, Meta, Record, decoded, read
from scheduler.objects.times import rfc3339

RENEW: Final = 2.0
"""Seconds between two renewals, and between two reads by a waiting replica (`retryPeriod` of client-go)."""

DEADLINE: Final = 10.0
"""Seconds after the start of the last successful renewal at which the holder stops acting (`renewDeadline` of
client-go). Five renewals may fail. Another replica waits `DURATION`, half as long again."""

CALL_LIMIT: Final = 5.0
"""Seconds for one call, so that a second one fits before the deadline."""


class LeaderElection:
    """Answers `leading(now)` while `run` takes and renews the Lease. `clock`: monotonic, in seconds since the epoch."""

    def __init__(
        self,
        client: Client,
        lease: LeaseName,
        identity: str,
        *,
        clock: Callable[[], float] = steady,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.holder = ""
        """The holder's identity, as last seen."""
        self.fault: errors.KubeError | None = None
        """Why the last turn failed; None if it succeeded."""
        self._client = client
        self._lease = lease
        self._identity = identity
        self._clock = clock
        self._sleep = sleep
        self._seen: Lease | None = None
        self._unchanged_since = float("-inf")
        self._until = float("-inf")
        self._released = False
        self._turns = asyncio.Lock()

    def leading(self, now: float) -> bool:
        """True only while this replica certainly holds the Lease."""
        return now < self._until

    async def run(self) -> Never:
        """Take and renew the Lease until canceled. Errors of the API server never end it. A released Lease is not taken
        again.
        """
        while True:
            async with self._turns:
                if not self._released:
                    self.fault = await self._turn()
            await self._sleep(RENEW)

    async def release(self) -> None:
        """Release the Lease for good, so that the next holder need not wait. Does nothing if this replica does not hold
        it. Never raises a KubeError.
        """
        self._released = True
        async with self._turns:  # a renewal under way would make this write fail
            await self._give_back()

    async def _give_back(self) -> None:
        if self._seen is None or not self.leading(self._clock()):
            return
        self._until = float("-inf")
        empty = msgspec.structs.replace(self._seen.spec, holder_identity="", lease_duration_seconds=1)
        try:
            await self._write("PUT", self._lease.path, self._seen.metadata.resource_version, empty)
        except errors.KubeError as error:
            self.fault = error

    async def _turn(self) -> errors.KubeError | None:
        try:
            if not (self._seen and self.leading(self._clock())):
                await self._look()
            await self._take()
        except errors.Conflict as error:
            return await self._met(error)
        except errors.KubeError as error:
            return error
        return None

    async def _met(self, conflict: errors.Conflict) -> errors.KubeError | None:
        """Handle a conflict with another write: another replica's, which may hold the Lease, or an own write whose
        answer was lost. A read tells which.
        """
        try:
            await self._look()
            if self.leading(self._clock()) and self.holder == self._identity:
                await self._take()
                return None
        except errors.KubeError:
            pass  # the holder is unknown
        self._until = float("-inf")
        return conflict

    async def _look(self) -> None:
        began = self._clock()
        try:
            self._keep(await read(self._client, self._lease, CALL_LIMIT), began)
        except errors.NotFound:
            self._seen, self.holder = None, ""

    async def _take(self) -> None:
        """Write this replica as the holder, if it may be."""
        began = self._clock()
        if self._seen is None:
            await self._write("POST", self._lease.path.rpartition("/")[0], "", self._ours(began, None))
        elif self._may_take(self._seen.spec, began):
            version = self._seen.metadata.resource_version
            await self._write("PUT", self._lease.path, version, self._ours(began, self._seen.spec))
        else:
            return
        self._until = began + DEADLINE

    def _may_take(self, record: Record, now: float) -> bool:
        if record.holder in {"", self._identity}:
            return True
        return now >= self._unchanged_since + record.duration

    def _ours(self, now: float, before: Record | None) -> Record:
        kept = before is not None and before.holder_identity == self._identity
        time = rfc3339(now, "microseconds")
        count = (before.lease_transitions or 0) if before else -1
        return Record(
            holder_identity=self._identity,
            lease_duration_seconds=DURATION,
            acquire_time=before.acquire_time if before and kept else time,
            renew_time=time,
            lease_transitions=count + (not kept),
        )

    async def _write(self, method: str, path: str, version: str, record: Record) -> None:
        meta = Meta(self._lease.name, self._lease.namespace, version)
        began = self._clock()
        sent = msgspec.json.encode(Lease(meta, record))
        body = await self._client.request(method, path, body=sent, timeout=CALL_LIMIT)
        self._keep(decoded(f"{method} {path}", body), began)

    def _keep(self, lease: Lease, now: float) -> None:
        if self._seen is None or lease.spec != self._seen.spec:
            self._unchanged_since = now
        self._seen, self.holder = lease, lease.spec.holder
