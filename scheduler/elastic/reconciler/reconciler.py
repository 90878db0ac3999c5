"""The entry point: events of one job in, effects out.

Lives here: the order in which the rules run after each event, and the queries that callers may ask in between. Never
here: a rule. Every rule is level-triggered: it compares the actual state with the wanted one, whatever has happened. A
lost, repeated or late event costs time, never correctness.
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
"""Poll interval in seconds while a change is in progress; upper bound of the delay added to a resize. A worker at the
barrier that is not needed yet does not count as a change. Neither does a pod that has left the round and still exists:
a finalizer may keep it indefinitely.
"""
STEADY: Final = 0.5
"""Poll interval while the job trains: half a beat."""
AT_REST: Final = 60.0
"""Poll interval while no worker has a node: every further step is caused by an event or has a deadline."""

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
"""Event type → its handler."""

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
"""The rules, in the order in which they run."""


class Reconciler:
    """Reconciles one job. `key` is `namespace/name`; `kubectl scale` and autoscalers use `selector` for its workers."""

    def __init__(self, key: str, *, selector: str = "", limits: Timeouts | None = None) -> None:
        self._s = State(key, selector, limits or Timeouts())
        self._dirty = False
        """An event has arrived since the rules last ran."""

    def take(self, event: Event, now: float) -> None:
        """Record an event; the next `reconcile` acts on it."""
        s = self._s
        self._rested(now)
        # Beats arrive all the time, and a policy repeats itself every few seconds: they wait for the next deadline.
        self._dirty |= not isinstance(event, job_events.Beat) and event != s.sizing.sized
        NOTES[type(event)](s, event, now)

    def reconcile(self, now: float) -> list[Effect]:
        """The effects to carry out, in this order. The rules run once, however many events came."""
        s = self._s
        if not self._dirty:
            self._rested(now)
        if self._dirty or now >= self.next_deadline(now):
            self._look(now)
        todo, s.todo = s.todo, []
        return todo

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Record an event and reconcile."""
        self.take(event, now)
        return self.reconcile(now)

    def _look(self, now: float) -> None:
        """Run the rules until none changes anything another one depends on; three times suffice, as none repeats."""
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
        """A master that slept heard no worker, so silence must not count against them."""
        s = self._s
        if s.looked_at is not None and now > self.next_deadline(now) + s.limits.slept:
            failure_detection.hush(s, now)

    @property
    def spec(self) -> Spec | None:
        """The spec for new workers: as wanted, with the template with which their gang was started."""
        return template_revision.whole(self._s)

    def status(self, now: float) -> Status:
        """The status to write to the API server. Between `Persist` and `Persisted` it contains the planned round."""
        return status_report.status(self._s, now)

    @property
    def looked_at(self) -> float | None:
        """When the rules last ran. While the job waits for a deadline only, its status does not change after that."""
        return self._s.looked_at

    def next_deadline(self, now: float) -> float:
        """When `reconcile` is due at the latest; beats do not move it."""
        return now if self._s.looked_at is None else self._s.due

    def beat_answer(self, uid: Uid) -> tuple[int, str | None]:
        """The newest round announced or published, and why the worker's process has to be killed, if so."""
        s = self._s
        worker = s.workers.get(uid)
        number = s.rounds.transition.number if s.rounds.transition else s.rounds.record.number
        return number, (worker.abort or None) if worker else "is not a worker of this job"

    def place(self, uid: Uid) -> Place | None:
        """What a newcomer should expect of its first round. None: not known yet, or it is in one."""
        worker = self._s.workers.get(uid)
        return expected_ranks.told(self._s, worker) if worker is not None else None

    @property
    def broken(self) -> int:
        """The current round if a member has ended before all trained in it, so it cannot meet. 0: it is not broken."""
        return selectors.broken(self._s)

    def assignment(self, uid: Uid, round_number: int) -> Assignment | None:
        """The answer to a worker that asks from this round, the same as in the last `Publish`. None: it has to wait."""
        s = self._s
        worker = s.workers.get(uid)
        told = round_plan.told(s).get(uid) if s.rounds.published else None
        if worker is None or told is None or told.round <= round_number:
            return None
        # An answered worker has left the barrier, so it must get the answer even if the next round was announced at
        # once: it comes back for that one. Without an answer it would wait until its call times out.
        answered = worker.alive and not worker.fallen and worker.arrival is None
        return told if told.removed or answered or selectors.stands(s) else None

    def restart(self, uid: Uid) -> bool:
        """Whether the agent should restart the training process after `Exited`."""
        worker = self._s.workers.get(uid)
        return worker is not None and worker.restart

    def wishes(self, now: float) -> JobView | None:
        """The job as sizing policies see it; None if they do not decide its size."""
        return sizing_request.view(self._s, now)
