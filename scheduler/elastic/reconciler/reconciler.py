"""The door: events of one job in, effects out.

Lives here: the order in which the rules look at the job after each event, and the questions that may be asked in
between. Never here: a rule. Every rule is level-triggered: what should be true is compared with what is, after whatever
happened; a lost, doubled or late event costs time, never truth.
"""

from collections.abc import Callable
from typing import Any, Final

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status import Status
from scheduler.elastic.reconciler import (
    completion,
    event_handlers,
    expected_ranks,
    failure_detection,
    job_events,
    round_plan,
    round_transition,
    scaling,
    selectors,
    sizing_request,
    start_backoff,
    status_report,
    stragglers,
    template_revision,
    worker_exits,
)
from scheduler.elastic.reconciler.job_effects import Assignment, Effect, Place
from scheduler.elastic.reconciler.job_events import Event, Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.timeouts import Timeouts
from scheduler.elastic.sizing.job_view import JobView

BUSY: Final = 0.1
"""Seconds until the next look while somebody waits for a change: what it may lose on top of what it takes. Who only
waits at the barrier until he is wanted waits for none, nor does anybody wait for a pod that has left the round and does
not go: a finalizer may keep it without end.
"""
STEADY: Final = 0.5
"""The same while the job trains: half a beat."""
AT_REST: Final = 60.0
"""The same while no worker has a node: whatever comes next is told, or has its moment."""

NOTES: Final[dict[type[Any], Callable[[State, Any, float], None]]] = {
    job_events.Restored: event_handlers.restored,
    job_events.Listed: event_handlers.listed,
    job_events.SpecSeen: event_handlers.spec_seen,
    job_events.SpecRefused: event_handlers.spec_refused,
    job_events.WorkerSeen: event_handlers.worker_seen,
    job_events.WorkerGone: event_handlers.worker_gone,
    job_events.StartRefused: scaling.start_refused,
    job_events.LostSight: event_handlers.lost_sight,
    job_events.SawAgain: event_handlers.saw_again,
    job_events.Beat: event_handlers.beat,
    job_events.Arrived: event_handlers.arrived,
    job_events.Leaving: event_handlers.leaving,
    job_events.Exited: worker_exits.exited,
    job_events.NodeDoomed: event_handlers.node_doomed,
    job_events.NodeCleared: event_handlers.node_cleared,
    job_events.Sized: scaling.sized,
    job_events.Persisted: round_transition.persisted,
    job_events.Elapsed: lambda _s, _event, _now: None,
}
"""Event → what it says, noted."""

LOOKS: Final[tuple[Callable[[State, float], None], ...]] = (
    scaling.set_desired,
    failure_detection.look,
    completion.look,
    stragglers.look,
    template_revision.look,
    scaling.scale,
    expected_ranks.look,
    round_transition.look,
    round_transition.repeat,
)
"""What is compared with what should be, in this order."""


class Reconciler:
    """One job. `key` is `namespace/name`; `selector` is what `kubectl scale` and autoscalers select its workers by."""

    def __init__(self, key: str, *, selector: str = "", limits: Timeouts | None = None) -> None:
        self._s = State(key, selector, limits or Timeouts())
        self._dirty = False
        """Something was told that the rules have not looked at."""

    def take(self, event: Event, now: float) -> None:
        """Take in what happened; what follows from it is worked out by the next `reconcile`."""
        s = self._s
        self._rested(now)
        # Beats come all the time, and a policy says the same of every job every few seconds: they wait for their time.
        self._dirty |= not isinstance(event, job_events.Beat) and event != s.sizing.sized
        NOTES[type(event)](s, event, now)

    def reconcile(self, now: float) -> list[Effect]:
        """What is to be done, in this order: the rules look once, however many events came."""
        s = self._s
        if not self._dirty:
            self._rested(now)
        if self._dirty or now >= self.next_deadline(now):
            self._look(now)
        todo, s.todo = s.todo, []
        return todo

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Both at once."""
        self.take(event, now)
        return self.reconcile(now)

    def _look(self, now: float) -> None:
        """Again as long as one rule has changed what another goes by; three times, for none changes anything twice."""
        s = self._s
        s.looked_at, self._dirty = now, False
        for _ in range(3 if s.listed and s.spec is not None else 0):
            before = len(s.todo)
            for look in LOOKS:
                look(s, now)
            if len(s.todo) == before:
                break
        start_backoff.forgive(s, now)
        status_report.turn(s, now)
        changing = s.rounds.transition or s.rounds.pending or s.sizing.starts
        busy = changing or any(w.going for w in selectors.entitled(s))
        pause = BUSY if busy else AT_REST if selectors.at_rest(s) else STEADY
        s.due = min(now + pause, scaling.due(s, now))

    def _rested(self, now: float) -> None:
        """A master that slept has heard nobody, and must not hold that against anybody."""
        s = self._s
        if s.looked_at is not None and now > self.next_deadline(now) + s.limits.slept:
            failure_detection.hush(s, now)

    @property
    def spec(self) -> Spec | None:
        """What workers are made from: as wanted, with the template that their gang was started with."""
        return template_revision.whole(self._s)

    def status(self, now: float) -> Status:
        """What the API server is to say of the job. Between `Persist` and `Persisted` it holds the round that is
        written.
        """
        return status_report.status(self._s, now)

    @property
    def looked_at(self) -> float | None:
        """When the rules last looked at the job; while it waits for nothing but time, its status is as it was then."""
        return self._s.looked_at

    def next_deadline(self, now: float) -> float:
        """When `reconcile` is due, at the latest; it does not move with every beat."""
        return now if self._s.looked_at is None else self._s.due

    def beat_answer(self, uid: Uid) -> tuple[int, str | None]:
        """The newest round that was announced or published, and why the worker's process is to be killed, if it is."""
        s = self._s
        worker = s.workers.get(uid)
        number = s.rounds.transition.number if s.rounds.transition else s.rounds.record.number
        return number, (worker.abort or None) if worker else "it is no worker of this job"

    def place(self, uid: Uid) -> Place | None:
        """What a newcomer has to expect of its first round; None: not known yet, or it is in one."""
        worker = self._s.workers.get(uid)
        return expected_ranks.told(self._s, worker) if worker is not None else None

    @property
    def broken(self) -> int:
        """The round that stands, if it is one in which nobody can meet any more: a member has ended. 0: it is not."""
        return selectors.broken(self._s)

    def assignment(self, uid: Uid, round_number: int) -> Assignment | None:
        """What a worker that asks from this round is told now; None: it has to wait. The same as the last `Publish`
        for it.
        """
        s = self._s
        worker = s.workers.get(uid)
        told = round_plan.told(s).get(uid) if s.rounds.published else None
        if worker is None or told is None or told.round <= round_number:
            return None
        # Whoever was answered is no longer at the barrier, so it must hear the answer even when the next round is
        # announced in the same breath: it comes back for that one, while a silence would last as long as its call may.
        answered = worker.alive and not worker.fallen and worker.arrival is None
        return told if told.removed or answered or selectors.stands(s) else None

    def restart(self, uid: Uid) -> bool:
        """Whether the agent is to start the training process again, after `Exited`."""
        worker = self._s.workers.get(uid)
        return worker is not None and worker.restart

    def wishes(self, now: float) -> JobView | None:
        """The job as sizing policies see it; None when its size is not theirs to say."""
        return sizing_request.view(self._s, now)
