"""Which workers are started and which newcomers are not needed any more.

Lives here: the comparison of who is there with what is wanted. Never here: who leaves a round (`choosing`).
The quorum is `core`, started together; what is wanted above it is `surplus`, and so are newcomers whom the policy has
start ahead: they warm up, and wait at the barrier until they are wanted. A worker that is to be replaced does not
count, so its replacement starts first; who is superfluous then makes way in the next round. While pods are not seen
none is made, or made again: whoever is missing may be there.
"""

from scheduler.elastic.membership import ending, roll, wanting
from scheduler.elastic.membership.effects import Abort, StartWorker
from scheduler.elastic.membership.state import Backoff, Start, State
from scheduler.elastic.membership.worker import Worker


def look(s: State, now: float) -> None:
    """Start what is missing, stop what is too much."""
    for worker in _parting(s):
        dismiss(s, worker, worker.leaving or "its pod is deleted", now)
    if _pauses(s):
        for worker in roll.newcomers(s):
            dismiss(s, worker, "the job does not need it now", now)
        if not s.blind:
            s.starts.clear()
            s.unseen.clear()
        if not roll.entitled(s):
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
    kept = roll.planned(s) | {w.uid for w in roll.entitled(s)}
    waiting = [w for w in s.workers.values() if w.alive and w.arrival and w.going and not w.stopped]
    return [w for w in waiting if w.uid not in kept and not roll.released(s, w)]


def _missing(s: State, staff: int) -> dict[str, int]:
    """So many are too few: cores for the quorum, surplus up to `staff` workers."""
    least = s.spec.min_workers if s.spec else 0
    lasting = roll.lasting(s)
    coming = [start.role for start in s.starts.values()]
    cores = max(0, least - sum(w.role == "core" for w in lasting) - coming.count("core"))
    return {"core": cores, "surplus": max(0, staff - len(lasting) - len(coming) - cores)}


def delayed(s: State, now: float) -> dict[str, Backoff]:
    """Roles of which somebody is missing who may not be started yet, and the failures that this waits for."""
    lacking = {} if _pauses(s) else _missing(s, wanting.staff(s))
    waits = {role: ending.waited_for(s, role, now) for role, count in lacking.items() if count}
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
    return wanting.staff(s) if whole else s.want if wanted else 0


def _start(s: State, now: float) -> None:
    """Cores up to the quorum, surplus up to what has been wanted for a moment."""
    waits = delayed(s, now)
    for role, count in _missing(s, _stood(s, now)).items():
        for _ in range(count if role not in waits else 0):
            s.counter += 1
            s.starts[s.counter] = Start(role, now)
            s.do(StartWorker(s.counter, role, ending.avoided(s, now)))


def _forget_unseen(s: State, now: float) -> None:
    for number, start in list(s.starts.items()):
        if now - start.at > s.limits.unseen:
            s.unseen[number] = s.starts.pop(number)


def _trim(s: State, now: float) -> None:
    """Newcomers beyond what is wanted go at once: they interrupt nobody."""
    kept = roll.planned(s) | {w.uid for w in roll.entitled(s)}
    fixed = [w for w in roll.lasting(s) if w.uid in kept]
    free = [w for w in roll.lasting(s) if w.uid not in kept]
    free.sort(key=_worth)
    least = s.spec.min_workers if s.spec else 0
    room = max(0, wanting.staff(s) - len(fixed), least - sum(w.role == "core" for w in fixed))
    for worker in free[room:]:
        dismiss(s, worker, f"{s.want} workers are wanted", now)
    lasting = len(fixed) + min(room, len(free))
    replaced = [w for w in roll.newcomers(s) if w.node in s.doomed and w.uid not in kept]
    if lasting >= s.want:
        for worker in replaced:
            dismiss(s, worker, f"its node is {s.doomed[worker.node][0]}", now)


def _renew(s: State, now: float) -> None:
    """Those that wait at their gate, and keep away from a node that is as good as any by now, are made again."""
    avoided = set(ending.avoided(s, now))
    for worker in roll.newcomers(s):
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
    ending.stop(s, w, why, now, ending.ABORTED_GRACE)
