"""The status of one job: what is wanted stands at the API server, sooner or later, and who waits for it is told.

Lives here: versions, conflicts, another try. Never here: what a status says. A write is the difference to what stands,
and names the version that it was made from; a conflict is answered by reading again. A round that is as new as ours and
that we did not write means that another master acted, and so does a status that cannot be read: then nothing of ours is
worth writing.
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
"""Seconds before the next try: workers stand at the barrier while a round is written."""

CONFLICTS: Final = 3
"""In a row that are answered by another look at once; whoever keeps writing beside us is waited for like any fault."""

KEPT: Final = 8
"""Rounds that are known for our own; one is in flight at a time."""

_JOB: Final = msgspec.json.Decoder(Job)
_log = structlog.get_logger("elastic")


class StatusWriter:
    """Keeps one status up to date while `run` runs.

    stands: told the round of every status that had to be written before something else may happen, once it stands.
    overtaken: called when somebody else wrote a later round, another one of the same number, or what cannot be read.
    readable: whether a status that somebody else wrote can be.
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
        """Why the last try failed; None when it did not."""
        self._owner = owner
        self._trying = trying
        self._stands = stands
        self._overtaken = overtaken
        self._readable = readable
        self._version = ""
        self._standing: Thing = {}
        self._was_read = False
        """What stands was read, or is what we wrote."""
        self._wanted: Thing | None = None
        self._round: int | None = None
        self._due = asyncio.Event()
        self._own: dict[int, Any] = {}
        """Rounds that we began from, wrote, or tried to write: number → assignment."""

    def believe(self, job: Job) -> None:
        """What stands there is what we begin from; what was wanted before is not any more."""
        self.seen(job)
        self._wanted = self._round = None
        found = job.status if isinstance(job.status, dict) else {}
        self._own = {_number(found): found.get("assignment")}

    def seen(self, job: Job) -> None:
        """What stands, as far as a watch or an answer tells; what is older than what we know changes nothing."""
        if _newer(job.metadata.resource_version, self._version):
            before, self._version = self._standing, job.metadata.resource_version
            self._standing = job.status if isinstance(job.status, dict) else {}
            self._was_read = self._was_read and self._standing == before

    @property
    def readable(self) -> bool:
        """Whether what stands can be read. If not, nothing is written over it."""
        self._was_read = self._was_read or self._readable(self._standing)
        return self._was_read

    def want(self, status: Thing, *, round_: int | None = None) -> None:
        """Write this, instead of whatever was wanted before. round_: tell of it when it stands.

        As long as somebody waits for a status, one for which nobody waits does not take its place.
        """
        stands = self._wanted is None and status == self._standing
        if round_ is None and (stands or self._round is not None):
            return
        self._wanted, self._round = status, round_
        self._due.set()

    async def run(self) -> Never:
        """Write until cancelled; nothing that the API server answers ends it."""
        while True:
            await self._due.wait()
            self._due.clear()
            async for attempt in attempts(errors.KubeError, tries=None, least=SOON, most=LATE):
                with attempt:
                    await self._write_newest()

    async def _write_newest(self) -> None:
        """One try, of what is wanted by now. Raises KubeError."""
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
        if self._wanted is status:  # else what was wanted meanwhile is next
            round_, self._wanted, self._round = self._round, None, None
            if round_ is not None:
                self._stands(round_)

    async def _write(self, status: Thing) -> None:
        """One try; a conflict is resolved and tried again at once, a few times. Raises KubeError."""
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
        self._version = ""  # what begins again believes what it finds
        self._overtaken()

    def _foreign(self, status: Thing) -> bool:
        """What stands is another's, and no older than this, or of nobody knows what age."""
        if not self.readable:
            return True
        number = _number(self._standing)
        if not number or number < _number(status):
            return False
        return number not in self._own or self._own[number] != self._standing.get("assignment")

    async def _put(self, status: Thing) -> None:
        """Raises Conflict where what stands is not what we took it for."""
        change = requests.difference(self._standing, status)
        if not change:
            return
        self._own[_number(status)] = status.get("assignment")
        for number in sorted(self._own)[:-KEPT]:
            del self._own[number]
        answer = await self._trying.once("status", requests.patch_status(self._owner, self._version, change))
        self._was_read = self._take(answer) == self._version
        if _number(self._standing) == _number(status):
            self._own[_number(status)] = self._standing.get("assignment")  # as the API server has it

    async def _read(self) -> None:
        """Take what stands, whatever we knew."""
        self._version = ""
        self._take(await self._trying.once("read", requests.get_job(self._owner)))

    def _take(self, answer: bytes) -> str:
        """Its version."""
        try:
            job = _JOB.decode(answer)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise errors.Garbled("elasticjobs", f"not an ElasticJob: {error}") from error
        if job.metadata.uid != self._owner.uid:
            raise errors.NotFound("elasticjobs", "another job has its name by now", status=404)
        self.seen(job)
        return job.metadata.resource_version


def _number(status: Thing) -> int:
    """Of a status' round; 0 without one."""
    found = status.get("round")
    return found if isinstance(found, int) else 0


def _newer(version: str, than: str) -> bool:
    """Versions of one kind grow as numbers do; anything else is believed."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
