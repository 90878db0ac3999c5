"""Failure detection: which workers are declared lost, and why.

Lives here: a table of rules, each with its message: silent, frozen and hung processes, newcomers that never get ready,
leavers that do not exit. Never here: the consequences (`worker_exits`).
Silence alone is not a failure shortly after the master has started or slept. Nor is it one if no other member was
heard since, because the master may be the unreachable one while the training continues. Nor is it for the last worker
that has the state. The latter two are reported, until a member is heard again or the pod is deleted.
"""

from typing import Final

from msgspec import Struct

from scheduler.elastic.job.status import WorkerPhase
from scheduler.elastic.reconciler import checkpoints, selectors, start_backoff, worker_exits
from scheduler.elastic.reconciler.job_effects import Abort, StopWorker, Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

HEARD_SINCE: Final = 0.4
"""Fraction of the silence limit. Another member must have been heard this much later. It exceeds the interval between
two beats, so the order of the last beats does not matter."""


class Scene(Struct, frozen=True):
    """All workers at one moment, evaluated once."""

    s: State
    now: float
    inside: frozenset[str]
    """Uids of workers that are in the round, or hold the state of one."""
    since: float | None
    """Since when a worker waits at the barrier; None if none does."""
    failed: bool
    """They came because a collective failed."""
    grace: float
    culprit: Worker | None
    """Of all hung workers, the one to blame."""
    latest: float
    """When a member was last heard."""
    last: Worker | None
    """The only worker that has the state."""


def _slow_start(s: State, w: Worker, unheard: float, now: float) -> bool:
    """Whether a newcomer is late to get ready. A released worker got ready long ago, and has a limit of its own (see
    `_remind`). A script that asks for its rank waits until the gang has its nodes; that is not its fault.

    A worker that takes steps alone, without a commit so far, has longer as long as its last step is recent.
    """
    if w.arrival is not None or w.seated_at is None or w.place is None or selectors.released(s, w):
        return False
    alone = w.beat is not None and w.beat.phase == WorkerPhase.WARMING_UP
    warms_up = alone and w.silent + unheard < s.limits.start / 2
    limit = max(s.limits.warm if warms_up else 0.0, s.limits.start)
    return now - max(w.seated_at, w.placed_at) > limit


def _fault(scene: Scene, w: Worker) -> tuple[str, bool] | None:
    """The message of the first row that holds, and whether its node is avoided from the first failure on."""
    # 1. How long it shows no progress, was not heard, and keeps others waiting at the barrier.
    s, now, grace, beat = scene.s, scene.now, scene.grace, w.beat
    inside, unheard, stalled = w.uid in scene.inside, now - w.beat_at, beat.silent_s if beat else 0.0
    late = scene.since if inside and w.arrival is None else None
    waited = 0.0 if late is None else now - late
    # 2. Whether silence means anything now.
    alone = bool(scene.inside) and scene.latest - w.beat_at < HEARD_SINCE * s.limits.silent
    spared = not w.going and (alone or w is scene.last)
    quiet = spared or now < s.health.quiet_until
    # 3. The conditions of the rows. A worker is stuck if a failed collective released the others long ago.
    silent = unheard > s.limits.silent and not quiet
    collective = scene.failed and beat is not None and beat.collective
    stuck = collective and min(waited, stalled) > s.limits.collective + grace
    no_process = waited > grace and beat is not None and beat.child == "none"
    slow, seated = not inside and _slow_start(s, w, unheard, now), now - (w.seated_at or now)
    troubled = bool(w.waiting) and now - w.waiting_since > s.limits.trouble and not (s.blind or inside)
    rows = (
        (silent and beat is not None, f"sent no heartbeat for {unheard:.0f} s", True),
        (silent and inside, "sent no heartbeat since the master started", True),
        (min(waited, unheard) > grace and not quiet, "is missing at the barrier, without heartbeats", True),
        (w.frozen_at is not None and now - w.frozen_at > grace, "is frozen: its process is stopped", False),
        (no_process, "is missing at the barrier, without a process", False),
        (stuck, "is stuck in a collective that the others have left", False),
        (w is scene.culprit, f"hangs: no progress for {stalled:.0f} s", False),
        (slow, f"was not ready {seated:.0f} s after it was assigned to a node", True),
        (troubled, f"cannot start: {w.waiting}", True),
    )
    return next(((sentence, bars) for holds, sentence, bars in rows if holds), None)


def look(s: State, now: float) -> None:
    """Declare lost every worker that a row matches; repeat pending deletions."""
    scene = _scene(s, now)
    for w in [w for w in s.workers.values() if w.alive and not (w.stopped and not w.deleting)]:
        fault = _fault(scene, w)
        if fault is not None:
            _give_up(scene, w, *fault)
    _unheard(s, now)
    for w in s.workers.values():
        _remind(s, w, now)


def hush(s: State, now: float) -> None:
    """The master was away: silence means nothing for twice the silence limit."""
    s.health.quiet_until = max(s.health.quiet_until, now + 2 * s.limits.silent)


def _unheard(s: State, now: float) -> None:
    """Report, once, members that are silent but not treated as lost."""
    people = selectors.entitled(s) if now >= s.health.quiet_until else []
    silent = selectors.names([w for w in people if now - w.beat_at > s.limits.silent])
    said = f"No heartbeat from {silent}; not treated as lost for that alone" if silent else ""
    if said and not s.health.unheard:
        s.do(Tell("Warning", "HeartbeatsMissing", said))
    s.health.unheard = said


def _give_up(scene: Scene, w: Worker, why: str, bars: bool) -> None:
    s, now = scene.s, scene.now
    if w.uid in scene.inside:
        start_backoff.failed_again(s, w.role, f"{w.name} {why}", now, pause=False)
        worker_exits.lose(s, w, why, now, bars=bars)
    elif w.going or selectors.released(s, w):
        w.end()
        worker_exits.stop(s, w, why, now)
    else:
        worker_exits.give_up(s, w, why, now)


def _scene(s: State, now: float) -> Scene:
    people = selectors.entitled(s)
    here = [w for w in people if w.arrival]
    holders, step_s = [w for w in people if selectors.has_state(w)], selectors.step_s(s)
    return Scene(
        s=s,
        now=now,
        inside=frozenset(w.uid for w in people),
        since=min((w.arrived_at for w in here), default=None),
        failed=any(w.arrival and w.arrival.why == "failure" for w in here),
        grace=max(s.limits.grace, s.limits.grace_steps * step_s),
        culprit=_culprit(s, step_s, now),
        latest=max((w.beat_at for w in people), default=now),
        last=holders[0] if len(holders) == 1 else None,
    )


def _culprit(s: State, step_s: float, now: float) -> Worker | None:
    """Of the members without progress: one outside of a collective, or else the one furthest behind.

    Only one at a time: when it is gone, the others leave the collective in which they waited for it, and their time
    starts again.
    """
    hang = max(s.limits.hang, s.limits.hang_steps * step_s)
    if s.rounds.transition and now - s.rounds.transition.since <= hang:
        return None
    patience = {w: _patience(s, w, hang) for w in selectors.ring(s) if w.arrival is None}
    if not any(w.silent > limit for w, limit in patience.items()):
        return None
    silent = [w for w, limit in patience.items() if w.silent > limit / 2]
    return min(silent, key=lambda w: (bool(w.beat and w.beat.collective), w.step, -w.since, w.uid))


def _patience(s: State, w: Worker, hang: float) -> float:
    """A longer limit before the first step of a round, in which frameworks trace and compile."""
    record, beat = s.rounds.record, w.beat
    stepped = beat is not None and beat.round == record.number and beat.step > record.step
    return hang if stepped else max(hang, s.limits.first_step)


def _remind(s: State, w: Worker, now: float) -> None:
    """Repeat requests that had no effect."""
    if w.stopped:
        if not w.deleting and now - w.stopped_at > s.limits.again:
            w.stopped_at = now
            s.do(StopWorker(w.uid, worker_exits.ABORTED_GRACE, w.stopped))
            if w.abort:
                s.do(Abort(w.uid, w.abort))
        return
    if s.rounds.record.leaving and w.released_at is None and selectors.released(s, w):
        w.released_at = now  # released by the previous master
    limit = s.limits.save if w.uid == s.rounds.record.saver else s.limits.release
    if w.released_at is not None and now - w.released_at > limit:
        why = "it was released but did not exit"
        checkpoints.ended(s, w, why)
        worker_exits.stop(s, w, why, now)
        w.end()
