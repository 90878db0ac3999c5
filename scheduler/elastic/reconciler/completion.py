"""How a job ends: success or failure.

Lives here: both ends, and how long nodes are held without progress. Never here: a pause (`round_transition` starts it,
`scaling` ends it), or which failures count (`worker_exits`).
A job succeeds when its training function has returned on every member of the last round and no member is still running.
A member lost on the way changes nothing if another one exited with 0.
"""

from collections.abc import Callable
from typing import Final

from scheduler.elastic.job.spec import EarlyExit
from scheduler.elastic.job.status import OVER, Phase, Status
from scheduler.elastic.reconciler import (
    round_transition,
    scaling,
    selectors,
    start_backoff,
    status_report,
    worker_exits,
)
from scheduler.elastic.reconciler.job_effects import Finish, Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

ALLOWED: Final = "Set spec.earlyExit to allow to accept this as the end of the training"
"""What users can do about it."""


def _all_done(s: State, now: float) -> str:
    if s.exits.finishing_at is None:
        return ""
    busy = selectors.busy(s)
    if not busy:
        return "Training finished"
    late = now - s.exits.finishing_at > s.limits.save and not any(_goes_on(s, w, now) for w in busy)
    return f"Training finished; {selectors.names(busy)} did not exit" if late else ""


def _export_failed(s: State, _now: float) -> str:
    """Code that a script ran after its training function had returned failed with a nonzero exit code."""
    for w in selectors.known(s, s.rounds.record.ring):
        if w.exit is not None and w.exit.returned and 0 < (w.exit.code or 0) < worker_exits.KILLED:
            return f"{w.name} failed after the training with code {w.exit.code}: {w.exit.why}"
    return ""


def _cut_short(s: State, now: float) -> str:
    """A member exited with 0, and other members whose training function has not returned cannot continue without it."""
    if s.spec is None or s.spec.early_exit is EarlyExit.ALLOW or s.exits.finishing_at is None:
        return ""
    members = selectors.known(s, s.rounds.record.ring)
    left = [w for w in members if w.well and not (w.going or selectors.released(s, w))]
    early = [w for w in left if worker_exits.leaves_early(w)]
    if early:
        when = f"at step {early[0].step}, before the training function returned"
        return f"{selectors.names(early)} exited with code 0 {when}. {ALLOWED}"
    stays = [w for w in members if w.alive and not (w.beat and w.beat.returned)]
    lost = any(w.lost or w.fallen for w in members)  # a lost member explains why the others are back
    back = [w for w in stays if not lost and w.arrival and w.arrival.why == "failure"]
    late = [w for w in stays if now - s.exits.finishing_at > s.limits.save and not _goes_on(s, w, now)]
    others = selectors.names(back or late)
    said = f"{selectors.names(left)} exited with code 0 while the training continued in {others}. {ALLOWED}"
    return said if others else ""


def _goes_on(s: State, worker: Worker, now: float) -> bool:
    """It evaluates or exports the result. A member that waits in a collective for exited ones is silent since then."""
    return worker.silent + now - worker.beat_at < s.limits.save / 2


def _not_elastic(s: State, _now: float) -> str:
    begun = s.rounds.started_at is not None
    ended = [] if begun else [w for w in s.workers.values() if worker_exits.never_entered(s, w)]
    if not ended:
        return ""
    end = ended[0].exit
    how = "exited with code 0 and never called a function decorated with hvd.elastic.run"
    if end is not None and end.foreign:
        how = f"has a script that is not elastic: {end.foreign}"
    return (
        f"{ended[0].name} {how}. Decorate the training function with hvd.elastic.run, or run a script of another kind "
        "(plain Horovod, torchrun) as an ordinary Job of a gang"
    )


def _too_many_restarts(s: State, _now: float) -> str:
    if s.spec is None or s.exits.restarts <= s.spec.max_restarts:
        return ""
    failed = f": {s.exits.last}" if s.exits.last else ""
    return f"The gang restarted {s.spec.max_restarts} times (spec.maxRestarts) and failed again{failed}"


def _too_many_failures(s: State, now: float) -> str:
    """Wait until all simultaneous failures are known: if all members failed, that is a lost gang, counted elsewhere."""
    if not worker_exits.too_often(s) or s.spec is None or now - s.exits.at < start_backoff.TOGETHER:
        return ""
    return (
        f"Worker processes failed {s.exits.count} times in a row without progress beyond step "
        f"{s.exits.furthest[0]}; spec.maxRestarts is {s.spec.max_restarts}: {s.exits.last}"
    )


def _no_progress(s: State, now: float) -> str:
    if s.spec is None or s.completion.held <= s.spec.progress_deadline:
        return ""
    parts = (s.exits.last, s.health.unheard, status_report.waiting(s, now))
    why = "; ".join(part for part in parts if part) or "no worker reported a cause"
    return (
        f"The job held nodes for {s.completion.held:.0f} s without progress beyond step {s.exits.furthest[0]}; "
        f"spec.progressDeadline is {s.spec.progress_deadline:g} s: {why}"
    )


TABLE: Final[tuple[tuple[Phase, str, Callable[[State, float], str]], ...]] = (
    (Phase.FAILED, "NotElastic", _not_elastic),
    (Phase.FAILED, "ExportFailed", _export_failed),
    (Phase.FAILED, "EarlyExit", _cut_short),
    (Phase.SUCCEEDED, "Completed", _all_done),
    (Phase.FAILED, "TooManyRestarts", _too_many_restarts),
    (Phase.FAILED, "TooManyFailures", _too_many_failures),
    (Phase.FAILED, "ProgressDeadlineExceeded", _no_progress),
)


def restored(s: State, status: Status) -> None:
    """A finished job stays finished."""
    s.completion.counted_for = s.exits.furthest
    if status.phase in OVER:
        said = (one.reason for one in status.conditions if one.type == Phase.FAILED.value and one.status)
        s.completion.over = (status.phase.value, next(said, status.phase.value), status.reason)


def look(s: State, now: float) -> None:
    """End the job if it is complete or has failed, and stop every worker that still runs after the end."""
    if s.completion.over:
        _stop_all(s, s.completion.over[2] or "The job is over", now)
        return
    _count_held(s, now)
    for phase, reason, ask in TABLE:
        message = ask(s, now)
        if message:
            _end(s, phase, reason, message, now)
            return


def _count_held(s: State, now: float) -> None:
    """Add the time since the last look if nodes were held without progress; ignore it if the master slept meanwhile."""
    since, s.completion.counted_at = s.completion.counted_at, now
    if s.completion.counted_for != s.exits.furthest:
        s.completion.counted_for, s.completion.held = s.exits.furthest, 0.0
    held = any(w.node and not (w.pod_ended or w.deleting) for w in s.workers.values())
    if since is not None and now >= s.health.quiet_until and held and not _trains(s, now):
        s.completion.held += now - since


def _trains(s: State, now: float) -> bool:
    """All members have shown progress for a while, even if a script that commits rarely reports no higher step. Work
    after the training counts as well; it has limits of its own.
    """
    members = selectors.ring(s)
    if s.exits.finishing_at is not None or any(w.beat and w.beat.returned for w in members):
        return True
    young = s.rounds.transition is not None or now - s.rounds.published_at <= s.limits.steady
    if not members or young or len(members) < len(s.rounds.record.ring):
        return False
    limit = max(s.limits.steady, s.limits.hang_steps * selectors.step_s(s))
    return all(selectors.trains(w, s.rounds.record) and w.silent + now - w.beat_at < limit for w in members)


def _end(s: State, phase: Phase, reason: str, message: str, now: float) -> None:
    s.completion.over = (phase.value, reason, message)
    round_transition.cancel(s)
    scaling.cancel(s)
    _stop_all(s, message, now)
    s.do(Tell("Normal" if phase is Phase.SUCCEEDED else "Warning", reason, message))
    s.do(Finish(phase.value, reason, message))


def _stop_all(s: State, message: str, now: float) -> None:
    for worker in s.workers.values():
        if worker.alive and not worker.stopped:
            worker.abort = worker.abort or message
            worker_exits.stop(s, worker, message, now)
        elif not (worker.stopped or worker.pod_ended or s.blind) and now - worker.exit_at > s.limits.release:
            # Its training has ended, but another container of the pod still runs and would hold the node forever.
            worker_exits.stop(s, worker, "the job is over, but its pod still runs", now)
