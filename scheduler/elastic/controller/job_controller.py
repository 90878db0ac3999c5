"""One job: what happens to it goes into its reconciler, what is to be done comes out and is done.

Lives here: the way of each effect, the workers that wait for an answer, the timer. Never here: a decision. A fault of
ours at one job leaves the others alone: the job is begun again from what stands at the API server, a while later.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from scheduler.elastic.controller.decode import AcceptedSpec, Job, Known
from scheduler.elastic.controller.job_metrics import JobMetrics
from scheduler.elastic.controller.pod_control import PodControl, Site
from scheduler.elastic.controller.pod_template import Thing, problems
from scheduler.elastic.controller.status_writer import StatusWriter
from scheduler.elastic.job import UnreadableStatus, decode_status, encode_status
from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status_json import accepted_template, readable
from scheduler.elastic.reconciler import Reconciler, job_effects, job_events
from scheduler.elastic.reconciler.job_effects import Assignment, Effect, Place
from scheduler.elastic.reconciler.job_events import Event, Uid
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.elastic.sizing.job_view import JobView
from scheduler.model.durations import doubled

ROUNDS: Final = 3
"""Published rounds that a worker is known as a member of. The newest has values; of the others it is told that they are
over."""

LEAST_WAIT: Final = 0.005
"""Seconds of rest at least between two looks at a deadline."""

FIRST_PAUSE: Final = 5.0
"""Seconds before a job at which we failed is begun again; doubles up to `LONGEST_PAUSE`. After as long without a fault the
next one is the first again."""
LONGEST_PAUSE: Final = 300.0

T = TypeVar("T")
_log = structlog.get_logger("elastic")


class JobController:
    """A job under care, from `begin` until `close`. doomed: nodes that are about to go, and why, as the registry keeps it."""

    def __init__(
        self, job: Job, site: Site, limits: Timeouts, counting: JobMetrics, doomed: Mapping[str, str]
    ) -> None:
        self.job = job
        self.owner = owner = job.owner
        self.rounds: dict[Uid, tuple[int, ...]] = {}
        """By worker: the newest published rounds that it is a member of."""
        self.workers: dict[Uid, Known] = {}
        self.site = site
        self._limits = limits
        self._counting = counting
        self._reconciler: Reconciler | None = None
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        """The next turn of the event loop in which what follows from events is done."""
        self._carrying = PodControl(owner, site, lambda event: self.feed(event))
        self._writing = StatusWriter(
            owner,
            site.trying,
            stands=lambda number: self.feed(job_events.Persisted(number)),
            overtaken=self._overtaken,
            readable=readable,
        )
        self._writer = self._begin_to_write()
        self._doomed = doomed
        self._blind = ""
        self._accepting = AcceptedSpec(partial(problems, owner), counting.metrics.specs_refused_total.inc)
        self._unreadable = ""
        """Why the status that stands cannot be read: as long as it is so, the job is left alone."""
        self._shown: tuple[float | None, Thing] = (None, {})  # when the rules had looked, and the status then
        self._failures = 0
        self._began = site.clock()
        """When it was begun, or begun again."""

    @property
    def spec(self) -> Spec | None:
        """What the job goes by, and its workers are made from; None while there is nothing that it could."""
        return self._reconciler.spec if self._reconciler is not None else self._accepting.spec

    # ── its life ────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, workers: Mapping[Uid, Known], blind: str) -> None:
        """Take it over from what stands at the API server. blind: why its pods are not seen, if they are not."""
        self.workers, self._blind = dict(workers), blind
        self._anew()

    def close(self) -> None:
        """It is gone, or no longer ours: nothing more is done for it, and nobody waits for it any longer."""
        self._reconciler = None
        self._arm(math.inf, self._reconcile)
        self._writer.cancel()
        self._carrying.close()
        self._counting.gone(self.owner.key)
        self._tell_news()

    def _anew(self) -> None:
        self._writing.believe(self.job)
        self._reconciler = None
        self._accepting.forget()
        try:
            status = decode_status(self.job.status)
        except UnreadableStatus as error:
            self._leave_alone(str(error))
            return
        self._unreadable = ""
        self._counting.known(self.owner.key, self.owner.uid, status)
        self._reconciler = Reconciler(self.owner.key, selector=self.owner.selector, limits=self._limits)
        if status is not None and status.assignment is not None:
            self._let_in(status.assignment.number, (seat.uid for seat in status.assignment.ring))
        restored = job_events.Restored(status, accepted_template(self.job.status))
        events: list[Event] = [restored, *self._accepting.read(self.job)]
        events += [job_events.NodeDoomed(node, why) for node, why in self._doomed.items()]
        events += [job_events.LostSight(self._blind)] if self._blind else []
        events += [known.seen for known in self.workers.values()]
        self.feed(*events, job_events.Listed())

    def _leave_alone(self, why: str) -> None:
        """Its training may be anywhere, so nothing is done, and nothing written, until somebody else makes it
        readable. Workers that train go on.
        """
        if not self._unreadable:
            said = f"the status cannot be read, and stays as it is: nothing is done for this job meanwhile: {why}"
            _log.error("status cannot be read", job=self.owner.key, error=why)
            self._counting.metrics.unreadable_objects_total.labels("elasticjobs").inc()
            self._carry(job_effects.Tell("Warning", "StatusUnreadable", said))
        self._unreadable = why

    def _begin_to_write(self) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(self._writing.run())
        task.add_done_callback(self._wrote)
        return task

    def _wrote(self, task: asyncio.Task[Any]) -> None:
        """It ends when we close, or by a fault of ours."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("status no longer written", job=self.owner.key, exc_info=error)
            self._break()

    def _overtaken(self) -> None:
        """Somebody else wrote a round: what we believe of this job is not so."""
        _log.error("status was written by another master", job=self.owner.key)
        self._break()

    def _break(self) -> None:
        """Begin again after a while, from a fresh look."""
        self._counting.metrics.broken_total.inc()
        self._reconciler = None
        if self.site.clock() - self._began > LONGEST_PAUSE:
            self._failures = 0
        pause = doubled(FIRST_PAUSE, self._failures, LONGEST_PAUSE)
        self._failures += 1
        self._arm(pause, self._mended)

    def _mended(self) -> None:
        self._began = self.site.clock()
        if self._writer.done():
            self._writer = self._begin_to_write()
        self._anew()

    # ── facts ───────────────────────────────────────────────────────────────────────────────────────────

    def job_seen(self, job: Job) -> None:
        before, self.job = self.job, job
        self._writing.seen(job)
        if self._unreadable or (self._reconciler is not None and not self._writing.readable):
            self._anew()
        elif before.metadata.generation != job.metadata.generation:
            self.feed(*self._accepting.read(job))
            for uid in self.workers:
                self._agree(uid)
            self._refresh_soon()

    def worker_seen(self, known: Known) -> None:
        self.workers[known.seen.uid] = known
        self._agree(known.seen.uid)
        self.feed(known.seen)

    def worker_gone(self, uid: Uid) -> None:
        if self.workers.pop(uid, None) is not None:
            for number in self.rounds.pop(uid, ())[-1:]:
                self.site.values.broken(self.owner.key, number)
            if not self.workers:
                self.site.values.forget(self.owner.key)
            self.feed(job_events.WorkerGone(uid))

    def sight_turned(self, why: str) -> None:
        """why: its pods are not seen; empty: they are."""
        before, self._blind = self._blind, why
        if bool(before) != bool(why):
            self.feed(job_events.LostSight(why) if why else job_events.SawAgain())
            self._refresh_soon()

    def _agree(self, uid: Uid) -> None:
        """Members of a gang that name different quorums are refused by the scheduler."""
        known = self.workers[uid]
        if self.spec is not None and known.quorum != str(self.spec.min_workers) and not known.seen.deleting:
            self._carrying.requote(uid, known.seen.name, self.spec.min_workers)

    # ── what follows ────────────────────────────────────────────────────────────────────────────────────

    def feed(self, *events: Event) -> None:
        """Tell the reconciler. What follows is done in the next turn of the event loop, for all that came by then."""
        with self._ours() as reconciler:
            if reconciler is None:
                return
            now = self.site.clock()
            for event in events:
                reconciler.take(event, now)
            if self._turn is None:
                self._turn = asyncio.get_running_loop().call_soon(self._reconcile)

    def _reconcile(self) -> None:
        """Do what is to be done now, and come back when time alone may call for more."""
        self._turn = None
        with self._ours() as reconciler:
            if reconciler is None:
                return
            now = self.site.clock()
            effects = reconciler.reconcile(now)
            self._arm(max(LEAST_WAIT, reconciler.next_deadline(now) - now), self._reconcile)
            for effect in effects:
                self._carry(effect)

    @contextmanager
    def _ours(self) -> Iterator[Reconciler | None]:
        """The reconciler, if there is one; whatever fails in it, or at what it says, is the fault of this one job."""
        try:
            yield self._reconciler
        except Exception:  # noqa: BLE001 - so it ends here, and the other jobs go on
            key = self.owner.key
            _log.exception("reconciler failed", job=key, kind=("reconciler failed", key))
            self._break()

    def _arm(self, seconds: float, then: Callable[[], None]) -> None:
        """Call this after so many seconds, in place of the call that was due; after infinitely many, never."""
        if self._timer is not None:
            self._timer.cancel()
        if seconds < math.inf:
            self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _carry(self, effect: Effect) -> None:
        match effect:
            case job_effects.StartWorker():
                if self.spec is not None:
                    self._carrying.start(effect, self.spec)
            case job_effects.StopWorker():
                if (known := self.workers.get(effect.uid)) is not None:
                    self._carrying.stop(effect, known.seen.name)
                else:
                    asyncio.get_running_loop().call_soon(self.feed, job_events.WorkerGone(effect.uid))
            case job_effects.Persist():
                self._counting.decided(self.owner.key, effect.status)
                self._writing.want(
                    encode_status(effect.status, self._accepting.written), round_=effect.status.round
                )
            case job_effects.Publish():
                self._publish(effect)
            case job_effects.Announce():
                self._tell_news()
            case job_effects.Tell():
                self._counting.told(effect)
                self._carrying.tell(effect)
            case job_effects.Resized():
                self._counting.resized(effect)
                self.site.values.met(self.owner.key, effect.round)
            case job_effects.Finish():
                _log.info("job over", job=self.owner.key, phase=effect.phase, reason=effect.reason)
                self.site.values.forget(self.owner.key)
                self.refresh()  # who waits for it, and the master after us, need not wait for figures
            case job_effects.Abort():
                pass  # the answer to the worker's next beat says it

    def _publish(self, effect: job_effects.Publish) -> None:
        self._counting.began(self.owner.key, effect.round)
        told = effect.assignments.items()
        self._let_in(effect.round, (uid for uid, assignment in told if not assignment.removed))
        self._tell_news()

    def _let_in(self, number: int, members: Iterable[Uid]) -> None:
        """They may read and write the values of this round."""
        for uid in members:
            if number not in self.rounds.get(uid, ()):
                self.rounds[uid] = (*self.rounds.get(uid, ()), number)[-ROUNDS:]

    def _refresh_soon(self) -> None:
        """Once the rules have looked: the turn of the event loop that was asked for before comes first."""
        asyncio.get_running_loop().call_soon(self.refresh)

    def refresh(self) -> None:
        """Bring the figures in the status up to date; they are where the rules have not looked since.

        Before the first look there is no status, and what stands is left as it is.
        """
        with self._ours() as reconciler:
            if reconciler is not None and reconciler.looked_at is not None:
                if reconciler.looked_at != self._shown[0]:
                    status = reconciler.status(self.site.clock())
                    self._counting.seen(self.owner.key, status)
                    self._shown = reconciler.looked_at, encode_status(status, self._accepting.written)
                self._writing.want(self._shown[1])

    # ── workers that ask ────────────────────────────────────────────────────────────────────────────────

    def beat_answer(self, uid: Uid) -> tuple[int, str | None, int, Place | None]:
        """The newest round announced to it; why its child is to be killed, if it is; the round in which none can meet any
        more, if it is the one that stands, else 0; and what it has to expect of its first round.
        """
        own = self._reconciler
        return (0, None, 0, None) if own is None else (*own.beat_answer(uid), own.broken, own.place(uid))

    @property
    def hears(self) -> bool:
        """Whether what a worker says but once is noted: not while the job is left alone, or about to be begun again."""
        return self._reconciler is not None

    def exited(self, event: job_events.Exited) -> bool:
        """Whether the agent is to start the child again."""
        if event.round is not None and event.round in self.rounds.get(event.uid, ()):
            self.site.values.broken(self.owner.key, event.round)
        self.feed(event)
        return self._reconciler is not None and self._reconciler.restart(event.uid)

    def wishes(self) -> JobView | None:
        """The job as the sizing policies see it; None where there is nothing to decide."""
        with self._ours() as reconciler:
            if reconciler is not None and self.spec is not None:
                return reconciler.wishes(self.site.clock())
        return None

    async def assignment(self, uid: Uid, known: int, wait: float) -> Assignment | None:
        """What the worker is told of the first round beyond `known`, once it is published; None after `wait`
        seconds.
        """
        return await self._awaited(
            lambda: self._reconciler.assignment(uid, known) if self._reconciler is not None else None, wait
        )

    async def announced(self, uid: Uid, known: int, wait: float) -> int:
        """The newest round announced to it, once it is beyond `known`, or after `wait` seconds."""
        await self._awaited(lambda: self.beat_answer(uid)[0] > known or None, wait)
        return self.beat_answer(uid)[0]

    async def _awaited(self, found: Callable[[], T | None], wait: float) -> T | None:
        try:
            async with asyncio.timeout(wait):
                while (answer := found()) is None:
                    await self._news.wait()
        except TimeoutError:
            return None
        return answer

    def _tell_news(self) -> None:
        """Everybody who waits looks again; who waits from now on waits for the next."""
        self._news.set()
        self._news = asyncio.Event()
