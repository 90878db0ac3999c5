"""Who is given up: silence, frozen and hung processes, newcomers that never get ready, leavers that do not leave.

Lives here: the table of these rules, each with the sentence that people read. Never here: what follows (`worker_exits`).
Nobody is given up for lack of a sign shortly after a restart of the master, or when it was the master that slept; nor
when no other member was heard of since, for then it may be the master that nobody reaches, while the training goes on;
nor for that alone the last one that has the state. Both are told, and end when somebody is heard of or the pod is taken
away.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from scheduler.elastic.job.status import WorkerPhase
from scheduler.elastic.reconciler import checkpoints, selectors, start_backoff, worker_exits
from scheduler.elastic.reconciler.job_effects import Abort, StopWorker, Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

HEARD_SINCE: Final = 0.4
"""Of the limit of silence: so much later another member must have been heard of. More than lies between two beats, so that
it does not matter whose was the last to come through."""


class Scene(Struct, frozen=True):
    """All of them at one moment, looked at once."""

    s: State
    now: float
    inside: frozenset[str]
    """Uids of those that are in the round, or hold the state of one."""
    since: float | None
    """Since when somebody waits at the barrier; None when nobody does."""
    failed: bool
    """They came because a collective failed."""
    grace: float
    culprit: Worker | None
    """Of all that hang, the one to blame."""
    latest: float
    """When a member was heard of last."""
    last: Worker | None
    """The only one that has the state."""


class Sight:
    """One worker in it."""

    def __init__(self, scene: Scene, w: Worker) -> None:
        self.scene, self.w, self.s, self.now = scene, w, scene.s, scene.now
        self.inside = w.uid in scene.inside
        waiting = self.inside and w.arrival is None and scene.since is not None
        self.waited = self.now - (scene.since or self.now) if waiting else 0.0
        """Seconds that others have waited for it at the barrier; 0 when none does."""
        self.unheard = self.now - w.beat_at

    @property
    def quiet(self) -> bool:
        """A lack of signs says nothing now."""
        return self.now < self.s.health.quiet_until or self.spared

    @property
    def spared(self) -> bool:
        """Silence alone is not held against it."""
        members = bool(self.scene.inside)
        alone = members and self.scene.latest - self.w.beat_at < HEARD_SINCE * self.s.limits.silent
        return not self.w.going and (alone or self.w is self.scene.last)


def _silent(o: Sight) -> bool:
    return o.w.beat is not None and o.unheard > o.s.limits.silent and not o.quiet


def _unheard_member(o: Sight) -> bool:
    """A member of which this master has heard nothing at all."""
    return o.inside and o.w.beat is None and o.unheard > o.s.limits.silent and not o.quiet


def _missing(o: Sight) -> bool:
    grace = o.scene.grace
    return o.waited > grace and o.unheard > grace and not o.quiet


def _frozen(o: Sight) -> bool:
    since = o.w.frozen_at
    return since is not None and o.now - since > o.scene.grace


def _no_process(o: Sight) -> bool:
    return o.waited > o.scene.grace and o.w.beat is not None and o.w.beat.child == "none"


def _stuck(o: Sight) -> bool:
    """The others were let go by the failed collective long ago."""
    limit = o.s.limits.collective + o.scene.grace
    inside = o.w.beat is not None and o.w.beat.collective
    return o.scene.failed and inside and min(o.waited, o.w.silent) > limit


def _slow_start(o: Sight) -> bool:
    """One that was released got ready long ago, and has a limit of its own; see `_remind`. A script that asks for its
    place waits until the gang has its seats: that is not its fault.
    """
    young = not o.inside and o.w.arrival is None and not selectors.released(o.s, o.w)
    if not young or o.w.seated_at is None or o.w.place is None:
        return False
    limit = max(o.s.limits.warm if _warms_up(o) else 0.0, o.s.limits.start)
    return o.now - max(o.w.seated_at, o.w.placed_at) > limit


def _warms_up(o: Sight) -> bool:
    """It takes steps alone, has come to no commit yet, and took the last one not long ago."""
    beat = o.w.beat
    return (
        beat is not None
        and beat.phase == WorkerPhase.WARMING_UP
        and o.w.silent + o.unheard < o.s.limits.start / 2
    )


def _trouble(o: Sight) -> bool:
    return (
        not o.s.blind
        and not o.inside
        and bool(o.w.waiting)
        and o.now - o.w.waiting_since > o.s.limits.trouble
    )


Row = tuple[str, Callable[[Sight], bool], str, bool]
"""Name, condition, sentence, and whether its node is avoided from the first time on."""

TABLE: Final[tuple[Row, ...]] = (
    ("silent", _silent, "has given no sign of life for {unheard:.0f} s", True),
    ("unheard", _unheard_member, "has given no sign of life since the master started", True),
    ("missing", _missing, "is waited for at the barrier and gives no sign", True),
    ("frozen", _frozen, "is frozen: its process is stopped", False),
    ("no process", _no_process, "is waited for at the barrier and has no process", False),
    ("stuck", _stuck, "is stuck in a collective that the others have left", False),
    ("hung", lambda o: o.w is o.scene.culprit, "hangs: no progress for {silent:.0f} s", False),
    ("slow start", _slow_start, "was not ready {seated:.0f} s after it got its seat", True),
    ("trouble", _trouble, "cannot start: {waiting}", True),
)


def look(s: State, now: float) -> None:
    """Give up whom a row of the table names; have those deleted that should be gone."""
    scene = _scene(s, now)
    for worker in _candidates(s):
        sight = Sight(scene, worker)
        row = next((row for row in TABLE if row[1](sight)), None)
        if row is not None:
            _give_up(s, sight, row)
    _unheard(s, now)
    for worker in s.workers.values():
        _remind(s, worker, now)


def hush(s: State, now: float) -> None:
    """The master was away: for two limits from now on no worker counts as lost for lack of a sign."""
    s.health.quiet_until = max(s.health.quiet_until, now + 2 * s.limits.silent)


def _unheard(s: State, now: float) -> None:
    """Members that are silent and were not given up are told of, once."""
    silent = [
        w for w in selectors.entitled(s) if now - w.beat_at > s.limits.silent and now >= s.health.quiet_until
    ]
    said = (
        f"no sign of life from {selectors.names(silent)}; nobody is given up for that alone" if silent else ""
    )
    if said and not s.health.unheard:
        s.do(Tell("Warning", "MembersSilent", said))
    s.health.unheard = said


def _candidates(s: State) -> list[Worker]:
    return [w for w in s.workers.values() if w.alive and not (w.stopped and not w.deleting)]


def _give_up(s: State, o: Sight, row: Row) -> None:
    _, _, sentence, bars = row
    seated = o.now - (o.now if o.w.seated_at is None else o.w.seated_at)
    why = sentence.format(unheard=o.unheard, silent=o.w.silent, seated=seated, waiting=o.w.waiting)
    if o.inside:
        start_backoff.failed_again(s, o.w.role, f"{o.w.name} {why}", o.now, pause=False)
        worker_exits.lose(s, o.w, why, o.now, bars=bars)
    elif o.w.going or selectors.released(s, o.w):
        o.w.end()
        worker_exits.stop(s, o.w, why, o.now, worker_exits.ABORTED_GRACE)
    else:
        worker_exits.give_up(s, o.w, why, o.now)


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
    """Of the members that show no progress: one outside of a collective, else the one that is furthest behind.

    One at a time: when it is gone, the others fall out of the collective in which they waited for it, and get as long
    again.
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
    """Longer before the first step of a round, in which frameworks trace and compile."""
    stepped = (
        w.in_round == s.rounds.record.number and w.beat is not None and w.beat.step > s.rounds.record.step
    )
    return hang if stepped else max(hang, s.limits.first_step)


def _remind(s: State, w: Worker, now: float) -> None:
    """What was asked for and shows no result is asked for again."""
    if w.stopped:
        if not w.deleting and now - w.stopped_at > s.limits.again:
            w.stopped_at = now
            s.do(StopWorker(w.uid, worker_exits.ABORTED_GRACE, w.stopped))
            if w.abort:
                s.do(Abort(w.uid, w.abort))
        return
    if s.rounds.record.leaving and w.released_at is None and selectors.released(s, w):
        w.released_at = now  # by the master before us
    limit = s.limits.save if w.uid == s.rounds.record.saver else s.limits.release
    if w.released_at is not None and now - w.released_at > limit:
        why = "it was released and did not end"
        checkpoints.ended(s, w, why)
        worker_exits.stop(s, w, why, now, worker_exits.ABORTED_GRACE)
        w.end()
