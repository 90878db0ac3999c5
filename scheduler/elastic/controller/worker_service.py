"""The rendezvous' questions, answered by the jobs.

Lives here: a worker's uid → its job. Never here: whether the worker is who it says.
"""

from collections.abc import Callable

from scheduler.elastic.controller.job_controller import JobController
from scheduler.elastic.controller.job_registry import Master
from scheduler.elastic.reconciler.job_effects import Assignment
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous.worker_messages import BeatAnswer, Reason, Refused
from scheduler.elastic.rendezvous.worker_requests import Worker


class Desk:
    """leading: whether we act. seeing: whether the watch of pods is up to date. interval: seconds between two beats."""

    def __init__(
        self, master: Master, *, leading: Callable[[], bool], seeing: Callable[[], bool], interval: float
    ) -> None:
        self._master = master
        self._leading = leading
        self._seeing = seeing
        self._interval = interval

    def worker(self, uid: str) -> Worker | None:
        """The live worker whose pod this is."""
        if not self._leading():
            raise Refused(Reason.STANDBY, "another master acts; try again in a moment")
        charge = self._master.charge_of(uid)
        if charge is not None:
            return Worker(charge.owner.key, frozenset(charge.rounds.get(uid, ())))
        if not self._seeing():  # it may have come since
            raise Refused(Reason.AWAY, "the API server is away, and this worker was not known before")
        return None

    async def beat(self, beat: Beat) -> BeatAnswer:
        """Note the sign of life."""
        charge = self._charge(beat.uid)
        charge.feed(beat)
        newest, abort, broken, place = charge.beat_answer(beat.uid)
        return BeatAnswer(newest, abort, self._interval, broken, place)

    async def ready(self, arrived: Arrived, wait: float) -> Assignment | None:
        """It stands at the barrier."""
        charge = self._charge(arrived.uid)
        charge.feed(arrived)
        return await charge.assignment(arrived.uid, arrived.round, wait)

    async def announced(self, uid: str, known: int, wait: float) -> int:
        """The newest round announced to it."""
        return await self._charge(uid).announced(uid, known, wait)

    async def leave(self, leaving: Leaving) -> None:
        """It goes."""
        self._listening(leaving.uid).feed(leaving)

    async def exit(self, exited: Exited) -> bool:
        """Its child ended; whether it is to be started again."""
        return self._listening(exited.uid).exited(exited)

    def _charge(self, uid: str) -> JobController:
        """Its job, which may have gone since the worker was let in."""
        charge = self._master.charge_of(uid)
        if charge is None:
            raise Refused(Reason.NO_WORKER, "this worker's job is gone")
        return charge

    def _listening(self, uid: str) -> JobController:
        """Its job, for what it says but once: the worker says it again until it is noted."""
        charge = self._charge(uid)
        if not charge.hears:
            raise Refused(Reason.AWAY, "this worker's job is not looked after at the moment")
        return charge
