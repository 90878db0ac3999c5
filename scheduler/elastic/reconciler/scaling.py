"""How many workers the job should have now, which are started, and which newcomers are not needed any more.

Lives here: who may say the size, and the comparison of the workers with it. Never here: a policy
(`scheduler.elastic.sizing`), or who leaves a round (`rank_assignment`).
The quorum is `core`, started together. What is wanted above it is `surplus`, and so are newcomers that a policy starts
ahead: they warm up, and wait at the barrier. A worker that is to be replaced does not count, so its replacement starts
first. While pods are not seen none is created: a missing one may be there.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from scheduler.elastic.reconciler import selectors, worker_exits
from scheduler.elastic.reconciler.job_effects import Abort, StartWorker, Tell
from scheduler.elastic.reconciler.job_state import Backoff, Start, State
from scheduler.elastic.reconciler.worker import Worker

Said: TypeAlias = tuple[int, str, str]
"""Size, by whom, why."""


def _paused(s: State) -> Said | None:
    if s.over:
        return 0, "gangwright", s.over[2]
    if s.finishing_at is not None:
        return len(s.record.ring), "gangwright", "a member has ended well; the others are about to"
    return (0, "user", "suspended") if s.spec and s.spec.suspend else None


def _user(s: State) -> Said | None:
    if s.spec is None or s.spec.workers is None:
        return None
    return s.spec.workers, "user", f"spec.workers is {s.spec.workers}"


def _policy(s: State) -> Said | None:
    return (s.sized.want, s.sized.by, s.sized.reason) if s.sized else None


def _schedule(s: State) -> Said | None:
    if s.spec is None:
        return None
    place = s.spec.stage(selectors.epoch(s))
    workers = s.spec.schedule[place].workers if place >= 0 else None
    return (workers, "schedule", f"schedule[{place}].workers") if workers else None


def _quorum(s: State) -> Said | None:
    return (s.spec.min_workers, "quorum", "minWorkers, until the policy speaks") if s.spec else None


TABLE: Final[tuple[Callable[[State], Said | None], ...]] = (_paused, _user, _policy, _schedule, _quorum)
"""Who says something decides, the first of them."""


def said(s: State) -> Said:
    """The size in force, between minimum and maximum unless the job pauses, with its author and reason."""
    for ask in TABLE:
        answer = ask(s)
        if answer is not None:
            return answer if ask is _paused or s.spec is None else (s.spec.clamp(answer[0]), *answer[1:])
    return 0, "", "nothing is known of the job yet"


def staff(s: State) -> int:
    """How many workers there may be: those that are wanted, and newcomers whom the policy has start ahead of that."""
    if s.sized is None or s.spec is None or s.spec.workers is not None:
        return s.want
    return max(s.want, min(s.sized.ahead, s.spec.max_workers))


def set_desired(s: State, now: float) -> None:
    """Note a change. Members are not interrupted for it before others had a moment to join it, nor is surplus started
    before it has stood for a moment.
    """
    want, by, why = said(s)
    if want != s.want:
        if s.want:
            s.do(Tell("Normal", "Wanted", f"{want} workers instead of {s.want}: {why}"))
        s.want_at = now
    first = s.want == 0
    s.want, s.wanted_by = want, by
    count = staff(s)
    if count != s.staff:
        s.staff, s.staff_at = count, float("-inf") if first else now


def scale(s: State, now: float) -> None:
    """Start what is missing, stop what is too much."""
    for worker in _parting(s):
        dismiss(s, worker, worker.leaving or "its pod is deleted", now)
    if _pauses(s):
        for worker in selectors.newcomers(s):
            dismiss(s, worker, "the job does not need it now", now)
        if not s.blind:
            s.starts.clear()
            s.unseen.clear()
        if not selectors.entitled(s):
            s.sized = None  # what there was room for says nothing of the room when it goes on
        return
    _trim(s, now)
    if s.blind:
        return
    _forget_unseen(s, now)
    _renew(s, now)
    _start(s, now)


def _pauses(s: State) -> bool:
    """Nobody is needed now."""
    return s.spec is None or s.spec.suspend or s.over is not None or s.finishing_at is not None


def _parting(s: State) -> list[Worker]:
    """Who stands at the barrier as a newcomer and has to go: no round will ever answer it, and it waits for one."""
    kept = selectors.planned(s) | {w.uid for w in selectors.entitled(s)}
    waiting = [w for w in s.workers.values() if w.alive and w.arrival and w.going and not w.stopped]
    return [w for w in waiting if w.uid not in kept and not selectors.released(s, w)]


def _missing(s: State, staff: int) -> dict[str, int]:
    """So many are too few: cores for the quorum, surplus up to `staff` workers."""
    least = s.spec.min_workers if s.spec else 0
    lasting = selectors.lasting(s)
    coming = [start.role for start in s.starts.values()]
    cores = max(0, least - sum(w.role == "core" for w in lasting) - coming.count("core"))
    return {"core": cores, "surplus": max(0, staff - len(lasting) - len(coming) - cores)}


def delayed(s: State, now: float) -> dict[str, Backoff]:
    """Roles of which somebody is missing who may not be started yet, and the failures that this waits for."""
    lacking = {} if _pauses(s) else _missing(s, staff(s))
    waits = {role: worker_exits.waited_for(s, role, now) for role, count in lacking.items() if count}
    return {role: former for role, former in waits.items() if former is not None}


def due(s: State, now: float) -> float:
    """When a start that waits for its time alone may be made, or made again elsewhere; infinity when there is none."""
    moments = [former.until for former in delayed(s, now).values()]
    moments += [node.until for node in s.barred.values() if node.until > now]
    moments += [at + s.limits.stand for at in (s.want_at, s.staff_at) if at + s.limits.stand > now]
    return min(moments, default=float("inf"))


def _stood(s: State, now: float) -> int:
    """How many workers there may be, by what has been wanted for a moment; of those ahead by turns, what is wanted."""
    whole, wanted = (at + s.limits.stand <= now for at in (s.staff_at, s.want_at))
    return staff(s) if whole else s.want if wanted else 0


def _start(s: State, now: float) -> None:
    """Cores up to the quorum, surplus up to what has been wanted for a moment."""
    waits = delayed(s, now)
    for role, count in _missing(s, _stood(s, now)).items():
        for _ in range(count if role not in waits else 0):
            s.counter += 1
            s.starts[s.counter] = Start(role, now)
            s.do(StartWorker(s.counter, role, worker_exits.avoided(s, now)))


def _forget_unseen(s: State, now: float) -> None:
    for number, start in list(s.starts.items()):
        if now - start.at > s.limits.unseen:
            s.unseen[number] = s.starts.pop(number)


def _trim(s: State, now: float) -> None:
    """Newcomers beyond what is wanted go at once: they interrupt nobody."""
    kept = selectors.planned(s) | {w.uid for w in selectors.entitled(s)}
    fixed = [w for w in selectors.lasting(s) if w.uid in kept]
    free = [w for w in selectors.lasting(s) if w.uid not in kept]
    free.sort(key=_worth)
    least = s.spec.min_workers if s.spec else 0
    room = max(0, staff(s) - len(fixed), least - sum(w.role == "core" for w in fixed))
    for worker in free[room:]:
        dismiss(s, worker, f"{s.want} workers are wanted", now)
    lasting = len(fixed) + min(room, len(free))
    replaced = [w for w in selectors.newcomers(s) if w.node in s.doomed and w.uid not in kept]
    if lasting >= s.want:
        for worker in replaced:
            dismiss(s, worker, f"its node is {s.doomed[worker.node][0]}", now)


def _renew(s: State, now: float) -> None:
    """Those that wait at their gate, and keep away from a node that is as good as any by now, are made again."""
    avoided = set(worker_exits.avoided(s, now))
    for worker in selectors.newcomers(s):
        cleared = sorted(set(worker.avoids) - avoided)
        if cleared and worker.gated:
            dismiss(s, worker, f"made again: it need not avoid {', '.join(cleared)} any more", now)


def _worth(w: Worker) -> tuple[bool, bool, bool, float, str]:
    """The lower, the longer it stays."""
    return (w.role != "core", w.arrival is None, not w.seated, w.since, w.uid)


def dismiss(s: State, w: Worker, why: str, now: float) -> None:
    """A newcomer is not needed: its process is ended, and its pod deleted."""
    w.abort = w.abort or why
    if w.arrival:
        s.do(Abort(w.uid, w.abort))
    worker_exits.stop(s, w, why, now, worker_exits.ABORTED_GRACE)
