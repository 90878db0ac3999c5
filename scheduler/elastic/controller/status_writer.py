"""The status of one job: writes the wanted one to the API server, and reports when it is stored.

Lives here: versions, conflicts, retries. Never here: the content of a status. A write is the difference from the stored
status, and names the version that it is based on; after a conflict the status is read again. A stored round that is as
new as this writer's but was not written by it means that another master was active. So does a status that cannot be
read. In both cases nothing is written.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Never

import msgspec
import structlog

from scheduler import errors
from scheduler.elastic.controller import requests
from scheduler.elastic.controller.decode import Job
from scheduler.elastic.controller.pod_template import Owner, Thing
from scheduler.elastic.controller.request_retry import RequestRetry, attempts

SOON: Final = 0.1
LATE: Final = 5.0
"""Seconds before the next attempt: workers are at the barrier while a round is written."""

CONFLICTS: Final = 3
"""Consecutive conflicts that are retried at once; after that a client that keeps writing is treated like any error."""

KEPT: Final = 8
"""Number of recent rounds known as its own; one is in progress at a time."""

_JOB: Final = msgspec.json.Decoder(Job)
_log = structlog.get_logger("elastic")


class StatusWriter:
    """Keeps one status up to date while `run` runs.

    stands: called with the round of a status that had to be written before something else may happen, once stored.
    overtaken: called when another client has written a later round, a different one with the same number, or a status
    that cannot be read. readable: whether a status can be read.
    """

    def __init__(
        self,
        owner: Owner,
        trying: RequestRetry,
        *,
        stands: Callable[[int], None],
        overtaken: Callable[[], None],
        readable: Callable[[Thing], bool] = lambda _status: True,
    ) -> None:
        self.fault: errors.KubeError | None = None
        """Why the last attempt failed; None if it succeeded."""
        self._owner = owner
        self._trying = trying
        self._stands = stands
        self._overtaken = overtaken
        self._readable = readable
        self._version = ""
        self._standing: Thing = {}
        self._was_read = False
        """The stored status was read successfully, or was written by this writer."""
        self._wanted: Thing | None = None
        self._round: int | None = None
        self._due = asyncio.Event()
        self._own: dict[int, Any] = {}
        """Rounds that it began with, wrote, or tried to write: number → assignment."""

    def believe(self, job: Job) -> None:
        """Start from this stored status, and forget the wanted one."""
        self.seen(job)
        self._wanted = self._round = None
        found = job.status if isinstance(job.status, dict) else {}
        self._own = {_number(found): found.get("assignment")}

    def seen(self, job: Job) -> None:
        """Record the stored status from a watch or an answer; older versions are ignored."""
        if _newer(job.metadata.resource_version, self._version):
            before, self._version = self._standing, job.metadata.resource_version
            self._standing = job.status if isinstance(job.status, dict) else {}
            self._was_read = self._was_read and self._standing == before

    @property
    def readable(self) -> bool:
        """Whether the stored status can be read. If not, it is not overwritten."""
        self._was_read = self._was_read or self._readable(self._standing)
        return self._was_read

    def want(self, status: Thing, *, round_: int | None = None) -> None:
        """Write this status instead of the one wanted before. round_: report it when the status is stored.

        A status with a `round_` is not replaced by one without.
        """
        stands = self._wanted is None and status == self._standing
        if round_ is None and (stands or self._round is not None):
            return
        self._wanted, self._round = status, round_
        self._due.set()

    async def run(self) -> Never:
        """Write until cancelled; no answer of the API server ends it."""
        while True:
            await self._due.wait()
            self._due.clear()
            async for attempt in attempts(errors.KubeError, tries=None, least=SOON, most=LATE):
                with attempt:
                    await self._write_newest()

    async def _write_newest(self) -> None:
        """Try once to write the newest wanted status. Raises KubeError."""
        status = self._wanted
        if status is None:
            return
        try:
            await self._write(status)
        except errors.KubeError as error:
            self.fault = error
            _log.warning("status not written", job=self._owner.key, error=str(error))
            raise
        self.fault = None
        if self._wanted is status:  # otherwise the newer one is next
            round_, self._wanted, self._round = self._round, None, None
            if round_ is not None:
                self._stands(round_)

    async def _write(self, status: Thing) -> None:
        """One attempt; conflicts are resolved and retried at once, a few times. Raises KubeError."""
        for conflicts in range(CONFLICTS + 1):
            try:
                if not self._version:
                    await self._read()
                if not self._foreign(status):
                    await self._put(status)
                    return
                break
            except errors.Conflict:
                self._version = ""
                if conflicts == CONFLICTS:
                    raise
        self._wanted, self._round = None, None
        self._version = ""  # the next start takes the stored status as it is
        self._overtaken()

    def _foreign(self, status: Thing) -> bool:
        """The stored status is by another writer, and either not older than this one or unreadable."""
        if not self.readable:
            return True
        number = _number(self._standing)
        if not number or number < _number(status):
            return False
        return number not in self._own or self._own[number] != self._standing.get("assignment")

    async def _put(self, status: Thing) -> None:
        """Raises Conflict if the stored status differs from the expected one."""
        change = requests.difference(self._standing, status)
        if not change:
            return
        self._own[_number(status)] = status.get("assignment")
        for number in sorted(self._own)[:-KEPT]:
            del self._own[number]
        answer = await self._trying.once("status", requests.patch_status(self._owner, self._version, change))
        self._was_read = self._take(answer) == self._version
        if _number(self._standing) == _number(status):
            self._own[_number(status)] = self._standing.get("assignment")  # as stored by the API server

    async def _read(self) -> None:
        """Read the stored status, whatever was known before."""
        self._version = ""
        self._take(await self._trying.once("read", requests.get_job(self._owner)))

    def _take(self, answer: bytes) -> str:
        """Record the answer. Returns its version."""
        try:
            job = _JOB.decode(answer)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise errors.Garbled("elasticjobs", f"not an ElasticJob: {error}") from error
        if job.metadata.uid != self._owner.uid:
            raise errors.NotFound("elasticjobs", "another job has taken its name", status=404)
        self.seen(job)
        return job.metadata.resource_version


def _number(status: Thing) -> int:
    """Round of a status; 0 without one."""
    found = status.get("round")
    return found if isinstance(found, int) else 0


def _newer(version: str, than: str) -> bool:
    """Versions of one kind grow like numbers; any other version counts as newer."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
