"""Whether the kube-scheduler of this replica leads. It holds the Lease; this module only reads it.

Lives here: a poll of one Lease, and a fence on the monotonic clock. Never here: a write. Of several replicas, only the
one whose kube-scheduler leads may act on the cluster. The times in the Lease come from other machines' clocks and are
never compared with the local one. What counts is that the record *changed*, and when it was last seen unchanged: the
renewal is no older than that. So a process that slept, or lost the API server, stops acting by itself, no later than
another replica may take over.

It may act again if no other replica held the Lease meanwhile: a kube-scheduler that was restarted or cut off takes back
its Lease. `leaseTransitions` tells: each new holder adds one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

from scheduler import errors
from scheduler.clock import steady
from scheduler.kube.client import Client
from scheduler.kube.lease_record import Lease, LeaseName, read

POLL = 0.5
"""Seconds between two reads. kube-scheduler renews as often (`retryPeriod` in extender_config)."""

LOOK_LIMIT = 2.0
"""Seconds for one read: a third of the usual lease, so that one may fail."""

AFTER_FAULT = 2.0
"""Seconds until the next read after a failed one, so that a failing API server is not flooded (see `retry_backoff`)."""


class Follower:
    """Answers `acting(now)` while `run` reads the Lease.

    kube-scheduler's identity is its hostname, an underscore and a random id. Inside a Pod both containers have the
    Pod's name as `hostname`. Without a lease (leader election is off: a single replica) the answer is always yes. Then
    `run` requests `/readyz` instead, so that the client's `last_answer` still shows whether the API server works.
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
        """The holder's identity, as last seen."""
        self.fault: errors.KubeError | None = None
        """Why the last read failed; None if it succeeded."""
        self.passed_on = 0
        """Grows whenever another replica holds the Lease, or may have held it between two reads."""
        self._client = client
        self._lease = lease
        self._ours = f"{hostname}_"
        self._clock = clock
        self._sleep = sleep
        self._seen: Lease | None = None
        self._unchanged = float("-inf")
        self._valid_until = float("-inf")

    def acting(self, now: float) -> bool:
        """True only while this replica's kube-scheduler certainly holds the Lease. `now`: by the same clock."""
        return self._lease is None or (self.holder.startswith(self._ours) and now < self._valid_until)

    async def run(self) -> Never:
        """Read the Lease repeatedly until canceled. Errors of the API server never end it."""
        while True:
            self.fault = await self._look()
            await self._sleep(POLL if self.fault is None else AFTER_FAULT)

    async def _look(self) -> errors.KubeError | None:
        began = self._clock()
        try:
            if self._lease is None:
                await self._client.request("GET", "/readyz", timeout=LOOK_LIMIT)
            else:
                self._observe(await read(self._client, self._lease, LOOK_LIMIT), began)
        except errors.NotFound as error:
            self._observe(None, began)
            return error
        except errors.KubeError as error:
            return error
        return None

    def _observe(self, lease: Lease | None, began: float) -> None:
        """Take in the result of a read that started at `began`.

        A changed record was renewed after the start of the last read that still showed the old one. The very first
        record proves nothing: a dead process may have left it.
        """
        before = self._seen
        self.passed_on += passed_on(before, lease, self._ours)
        if lease is None:
            self._valid_until = float("-inf")
        elif before is not None and (lease.spec, lease.metadata.uid) != (before.spec, before.metadata.uid):
            self._valid_until = self._unchanged + lease.spec.duration
        self.holder = lease.spec.holder if lease is not None else ""
        self._seen, self._unchanged = lease, began


def passed_on(before: Lease | None, now: Lease | None, ours: str) -> bool:
    """Whether another replica held the Lease between two reads, or may have. ours: the prefix of this identity.

    A holder that releases the Lease keeps the count of transitions, and each new holder adds one. So one added
    transition may be this replica's own. For a recreated Lease the answer is always True.
    """
    if before is None or now is None or before.metadata.uid != now.metadata.uid:
        return True
    holder = now.spec.holder
    if holder and not holder.startswith(ours):
        return True
    taken = int(bool(holder) and holder != before.spec.holder)
    return (now.spec.lease_transitions or 0) - (before.spec.lease_transitions or 0) != taken
