"""Controller of one ElasticJob: feeds events to the reconciler, and carries out its effects.

Lives here: how each effect is carried out, the workers that wait for an answer, the timer. Never here: a decision. An
internal error in one job does not affect the others: its state is rebuilt from the API server after a pause.
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
"""Number of published rounds in which a worker is known as a member. The newest has values; the others are reported as
over."""

LEAST_WAIT: Final = 0.005
"""Minimum seconds between two checks of a deadline."""

FIRST_PAUSE: Final = 5.0
"""Seconds before a job is rebuilt after an internal error; doubles up to `LONGEST_PAUSE`. After that long without an
error, the next pause is the first again."""
LONGEST_PAUSE: Final = 300.0

T = TypeVar("T")
_log = structlog.get_logger("elastic")


class JobController:
    """A managed job, from `begin` until `close`. doomed: draining nodes and the reasons, maintained by the registry."""

    def __init__(
        self, job: Job, site: Site, limits: Timeouts, counting: JobMetrics, doomed: Mapping[str, str]
    ) -> None:
        self.job = job
        self.owner = owner = job.owner
        self.rounds: dict[Uid, tuple[int, ...]] = {}
        """Worker → the newest published rounds of which it is a member."""
        self.workers: dict[Uid, Known] = {}
        self.site = site
        self._limits = limits
        self._counting = counting
        self._reconciler: Reconciler | None = None
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        """The next turn of the event loop, in which the recorded events are processed."""
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
        """Why the stored status cannot be read; the job is left alone until it can be."""
        self._shown: tuple[float | None, Thing] = (None, {})  # last run of the rules, and its status
        self._failures = 0
        self._began = site.clock()
        """When it was begun or rebuilt."""

    @property
    def spec(self) -> Spec | None:
        """The spec that applies, from which workers are created; None if there is none."""
        return self._reconciler.spec if self._reconciler is not None else self._accepting.spec

    # ── lifecycle ───────────────────────────────────────────────────────────────────────────────────────

    def begin(self, workers: Mapping[Uid, Known], blind: str) -> None:
        """Take over the job from its stored state. blind: why its pods are not seen, if so."""
        self.workers, self._blind = dict(workers), blind
        self._anew()

    def close(self) -> None:
        """The job is deleted or managed by another master: stop all work, and release waiting requests."""
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
        """Its training may be in any state, so nothing is done and nothing written until the status is readable again.
        Workers continue to train.
        """
        if not self._unreadable:
            said = f"Status is unreadable and kept; the job is not managed until it is fixed: {why}"
            _log.error("status unreadable", job=self.owner.key, error=why)
            self._counting.metrics.unreadable_objects_total.labels("elasticjobs").inc()
            self._carry(job_effects.Tell("Warning", "StatusUnreadable", said))
        self._unreadable = why

    def _begin_to_write(self) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(self._writing.run())
        task.add_done_callback(self._wrote)
        return task

    def _wrote(self, task: asyncio.Task[Any]) -> None:
        """The task ends when the controller is closed, or by an internal error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("status no longer written", job=self.owner.key, exc_info=error)
            self._break()

    def _overtaken(self) -> None:
        """Another client has written a round, so the state of this controller is wrong."""
        _log.error("status was written by another master", job=self.owner.key)
        self._break()

    def _break(self) -> None:
        """Rebuild the state from the API server after a pause."""
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
        """Update the quorum on a pod: the scheduler rejects a gang whose members name different quorums."""
        known = self.workers[uid]
        if self.spec is not None and known.quorum != str(self.spec.min_workers) and not known.seen.deleting:
            self._carrying.requote(uid, known.seen.name, self.spec.min_workers)

    # ── consequences ────────────────────────────────────────────────────────────────────────────────────

    def feed(self, *events: Event) -> None:
        """Pass events to the reconciler. The next turn of the event loop processes all that came by then."""
        with self._ours() as reconciler:
            if reconciler is None:
                return
            now = self.site.clock()
            for event in events:
                reconciler.take(event, now)
            if self._turn is None:
                self._turn = asyncio.get_running_loop().call_soon(self._reconcile)

    def _reconcile(self) -> None:
        """Carry out the effects that are due, and schedule the next call for the reconciler's deadline."""
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
        """The reconciler, if there is one. An exception in it, or in its use, affects this job only."""
        try:
            yield self._reconciler
        except Exception:  # noqa: BLE001 - it ends here, so the other jobs continue
            key = self.owner.key
            _log.exception("reconciler failed", job=key, kind=("reconciler failed", key))
            self._break()

    def _arm(self, seconds: float, then: Callable[[], None]) -> None:
        """Replace the pending call by this one in so many seconds; infinity cancels it."""
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
                self.refresh()  # waiting users, and the next master, need not wait for the next periodic status
            case job_effects.Abort():
                pass  # delivered by the answer to the worker's next beat

    def _publish(self, effect: job_effects.Publish) -> None:
        self._counting.began(self.owner.key, effect.round)
        told = effect.assignments.items()
        self._let_in(effect.round, (uid for uid, assignment in told if not assignment.removed))
        self._tell_news()

    def _let_in(self, number: int, members: Iterable[Uid]) -> None:
        """Allow these members to read and write the values of this round."""
        for uid in members:
            if number not in self.rounds.get(uid, ()):
                self.rounds[uid] = (*self.rounds.get(uid, ()), number)[-ROUNDS:]

    def _refresh_soon(self) -> None:
        """Refresh after the rules have run: the turn of the event loop requested before comes first."""
        asyncio.get_running_loop().call_soon(self.refresh)

    def refresh(self) -> None:
        """Update the figures in the status, unless the rules have not run since the last time.

        Before the first run there is no status, and the stored one stays unchanged.
        """
        with self._ours() as reconciler:
            if reconciler is not None and reconciler.looked_at is not None:
                if reconciler.looked_at != self._shown[0]:
                    status = reconciler.status(self.site.clock())
                    self._counting.seen(self.owner.key, status)
                    self._shown = reconciler.looked_at, encode_status(status, self._accepting.written)
                self._writing.want(self._shown[1])

    # ── requests of workers ─────────────────────────────────────────────────────────────────────────────

    def beat_answer(self, uid: Uid) -> tuple[int, str | None, int, Place | None]:
        """The newest round announced to it; why its process has to be killed, if so; the current round if its members
        cannot meet any more, else 0; and what to expect of its first round.
        """
        own = self._reconciler
        return (0, None, 0, None) if own is None else (*own.beat_answer(uid), own.broken, own.place(uid))

    @property
    def hears(self) -> bool:
        """Whether one-time messages of workers are recorded: not while the job is left alone or about to be rebuilt."""
        return self._reconciler is not None

    def exited(self, event: job_events.Exited) -> bool:
        """Whether the agent should restart the process."""
        if event.round is not None and event.round in self.rounds.get(event.uid, ()):
            self.site.values.broken(self.owner.key, event.round)
        self.feed(event)
        return self._reconciler is not None and self._reconciler.restart(event.uid)

    def wishes(self) -> JobView | None:
        """The job as the sizing policies see it; None if there is nothing to decide."""
        with self._ours() as reconciler:
            if reconciler is not None and self.spec is not None:
                return reconciler.wishes(self.site.clock())
        return None

    async def assignment(self, uid: Uid, known: int, wait: float) -> Assignment | None:
        """The worker's assignment in the first round beyond `known`, once published; None after `wait` seconds."""
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
        """Wake all waiting requests; later ones wait for the next news."""
        self._news.set()
        self._news = asyncio.Event()
