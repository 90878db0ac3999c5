"""The rendezvous' questions, answered by the jobs.

Lives here: a worker's uid → its job, and bodies → events. Never here: whether the worker is who it says.
"""

from collections.abc import Callable

from scheduler.elastic.controller.job_controller import JobController
from scheduler.elastic.controller.job_registry import Master
from scheduler.elastic.reconciler.job_effects import Assignment
from scheduler.elastic.reconciler.job_events import Arrived, Beat, Exited, Leaving
from scheduler.elastic.rendezvous import worker_messages
from scheduler.elastic.rendezvous.worker_messages import Reason, Refused
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

    async def beat(self, uid: str, beat: worker_messages.Beat) -> worker_messages.BeatAnswer:
        """Note the sign of life."""
        charge = self._charge(uid)
        charge.feed(
            Beat(
                uid=uid,
                phase=beat.phase,
                round=beat.round,
                step=beat.step,
                committed=beat.committed,
                samples=beat.samples,
                epoch=beat.epoch,
                step_s=beat.step_s,
                compute_s=beat.compute_s,
                silent_s=beat.silent_s,
                collective=beat.collective,
                child=beat.child,
                values=beat.values,
                uses=None if beat.uses is None else tuple(beat.uses),
                returned=beat.returned,
                stale=beat.stale,
            )
        )
        newest, abort = charge.beat_answer(uid)
        return worker_messages.BeatAnswer(newest, abort, self._interval, charge.broken, charge.place(uid))

    async def ready(self, uid: str, ready: worker_messages.Ready, wait: float) -> Assignment | None:
        """It stands at the barrier."""
        charge = self._charge(uid)
        charge.feed(
            Arrived(
                uid,
                ready.round,
                ready.step,
                ready.committed,
                ready.why,
                ready.fingerprint,
                ready.samples,
                place=ready.place,
                again=ready.again,
                setup=ready.setup,
                another=ready.another,
            )
        )
        return await charge.assignment(uid, ready.round, wait)

    async def announced(self, uid: str, known: int, wait: float) -> int:
        """The newest round announced to it."""
        return await self._charge(uid).announced(uid, known, wait)

    async def leave(self, uid: str, leave: worker_messages.Leave) -> None:
        """It goes."""
        self._listening(uid).feed(Leaving(uid, leave.why, leave.grace_s))

    async def exit(self, uid: str, ended: worker_messages.Exit) -> bool:
        """Its child ended; whether it is to be started again."""
        told = Exited(
            uid,
            ended.code,
            ended.signal,
            ended.why,
            ended.culprit,
            tuple(ended.tail),
            ended.round,
            ended.checkpoint_step,
            ended.process,
            ended.returned,
            ended.entered,
            ended.foreign,
        )
        return self._listening(uid).exited(told)

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
