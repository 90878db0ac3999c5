"""How workers end, and what follows for them, their nodes and the next start.

Lives here: ends of processes and pods, the giving up of those that do not answer, and the back-off from nodes. Which of
these failures count is said here too. Never here: whether a worker is silent for too long (`failure_detection`), or what becomes of
the round (`round_transition`).

A member whose process was killed by a signal is started again inside its pod, as a newcomer: the seat is kept, and the
state comes from those that live. One that ended with a code of its own had a reason, and its pod goes.
"""

import zlib
from typing import Final

import msgspec

from scheduler.elastic.job.status import Barred
from scheduler.elastic.reconciler import checkpoints, selectors
from scheduler.elastic.reconciler.job_effects import Abort, StopWorker, Tell
from scheduler.elastic.reconciler.job_events import Exited, WorkerGone, WorkerSeen
from scheduler.elastic.reconciler.job_state import Backoff, State
from scheduler.elastic.reconciler.worker import Worker
from scheduler.errors import shortened

ABORTED_GRACE = 5.0
"""Seconds for the agent of a killed process to send what it knows."""
TOGETHER = 2.0
"""Seconds in which members are lost that one cause has taken: two beats."""
KILLED = 128
"""Codes from here on are a shell's way to name a signal."""
WAITS_FOR: Final = {"core": ("core",), "surplus": ("core", "surplus")}
"""Role → those whose failures its next start waits for. Without its quorum a job does not train: whatever becomes of
surplus, a core is not kept waiting for it.
"""
ALONE = 5
"""Failures in a row after which a job does not wait for others: some 15 s, in which a pod that goes may hold a quota."""
REMEMBERED = 1000
"""Pods that are gone; words come late by seconds, and a job makes few pods a second."""
TAIL = 3
"""Lines of the end of a log that are shown."""


def exited(s: State, event: Exited, now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None:
        return
    if worker.ended:
        if worker.exit is None:  # its pod's phase was told first
            worker.exit = event
            checkpoints.ended(s, worker, _how(event))
        return
    if event.round is not None and event.round < worker.in_round:
        return
    if _told_twice(worker, event):
        return
    worker.beat_at, worker.exit, worker.exit_at = now, event, now
    worker.restart = False
    checkpoints.ended(s, worker, _how(event))
    if worker.lost:
        worker.end()
    elif never_entered(s, worker):
        worker.end(well=event.code == 0)
    elif event.code == 0:
        _ended_well(s, worker, now, own=True)
    else:
        _ended_badly(s, worker, event, now)


def _told_twice(worker: Worker, event: Exited) -> bool:
    """Of this process, or of a later one, the end is known: the agent did not get our answer."""
    last = worker.exit.process if worker.exit else None
    return event.process is not None and last is not None and event.process <= last


def pod_ended(s: State, worker: Worker, event: WorkerSeen, now: float) -> None:
    """The kubelet says that it is over; usually the agent said so before."""
    if not worker.alive:
        return
    if event.phase == "Succeeded":
        _ended_well(s, worker, now, own=False)
    else:
        _gone_wrong(s, worker, f"failed: {event.cause}" if event.cause else "its pod has failed", now)


def explain(s: State, worker: Worker) -> None:
    """Kubernetes says why a pod ended after its agent had its say, or after silence. People hear that once, and it goes
    before what was said until then: long texts are cut at the end.
    """
    if worker.alive or worker.explained or not worker.cause:
        return
    worker.explained = True
    s.do(Tell("Warning", "PodFailed", f"{worker.name}: {worker.cause}"))
    if not worker.lost:
        return
    before = worker.lost
    worker.lose(f"failed: {worker.cause}; {before}")
    said, more = f"{worker.name} {before}", f"{worker.name} {worker.lost}"
    bar = s.barred.get(worker.node)
    if bar is not None and bar.why == shortened(before):
        s.barred[worker.node] = msgspec.structs.replace(bar, why=shortened(worker.lost))
    s.last_failure = more if s.last_failure == said else s.last_failure
    s.backoff = {role: one._replace(why=more) if one.why == said else one for role, one in s.backoff.items()}


def worker_gone(s: State, event: WorkerGone, _now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None:
        return
    if worker.alive and any(worker is one for one in selectors.entitled(s)):
        s.do(Tell("Warning", "WorkerLost", f"{worker.name} is gone"))
    checkpoints.ended(s, worker, "its pod is gone")
    del s.workers[event.uid]
    s.gone[event.uid] = None
    for uid in list(s.gone)[:-REMEMBERED]:
        del s.gone[uid]


def _ended_well(s: State, worker: Worker, now: float, *, own: bool) -> None:
    """own: its training process has ended so, by its agent's word. A pod ends so, too, when its agent leaves."""
    worker.end(well=True)
    inside = any(seat.uid == worker.uid for seat in s.record.ring) and not worker.fallen
    finished = own and inside and s.published and not leaves_early(worker)
    if selectors.released(s, worker) or (worker.going and not finished):
        stop(s, worker, "it has left in order", now, ABORTED_GRACE)
    elif inside and s.published:  # told to go or not: nobody tells a training to end with code 0
        s.finishing_at = now if s.finishing_at is None else s.finishing_at
    else:
        worker.goes_on()
        if own:
            _blame(s, worker, "ended with code 0 before it was in a round", now)
        _failed_start(s, worker, "ended with code 0 before it was in a round", now, own_fault=True)


def leaves_early(worker: Worker) -> bool:
    """It has ended with code 0, and its training function had not returned."""
    return worker.exit is not None and worker.exit.code == 0 and worker.exit.returned is False


def never_entered(s: State, worker: Worker) -> bool:
    """Its script is of another kind, by a sign of it or because it came to its end without elastic Horovod. It would do so
    again. That is said of its own accord and before anything was trained: a later newcomer may find nothing left to do.
    """
    end = worker.exit
    other = end is not None and (bool(end.foreign) or (end.code, end.entered) == (0, False))
    return other and not worker.going and not selectors.released(s, worker) and s.started_at is None


def _ended_badly(s: State, worker: Worker, event: Exited, now: float) -> None:
    how = _how(event)
    trained = any(worker is one for one in selectors.entitled(s))
    killed = event.signal is not None or (event.code or 0) >= KILLED
    again = killed and not worker.going and (worker.restarting or worker.in_place < s.limits.in_place)
    if not worker.restarting:
        _blame(s, worker, how, now)
    if not again or s.finishing_at is not None or selectors.released(s, worker):
        _gone_wrong(s, worker, how, now)
        return
    worker.restart = True
    worker.past = max(worker.past, worker.told, worker.in_round, event.round or 0)
    worker.arrival = worker.beat = worker.ready_at = worker.frozen_at = None
    worker.seated_at = now
    worker.fallen = worker.fallen or trained
    if worker.restarting:
        s.do(Tell("Normal", "ProcessRestarted", f"{worker.name}: {worker.abort}"))
        worker.restarting, worker.abort, worker.place = False, "", None
        return
    worker.in_place += 1
    if trained:
        failed_again(s, worker.role, f"{worker.name} {how}", now, pause=False)
    s.do(Tell("Warning", "ProcessRestarted", f"{worker.name} {how}; its process is started again"))


def _gone_wrong(s: State, worker: Worker, how: str, now: float) -> None:
    if selectors.released(s, worker):
        worker.end()
        stop(s, worker, how, now, ABORTED_GRACE)
    elif any(worker is one for one in selectors.entitled(s)):
        failed_again(s, worker.role, f"{worker.name} {how}", now)
        lose(s, worker, how, now, bars=False)
        worker.end()
    else:
        _failed_start(s, worker, how, now, own_fault=True)
        worker.end()


def _how(event: Exited) -> str:
    end = (
        f"was killed by signal {event.signal}"
        if event.signal is not None
        else f"ended with code {event.code}"
    )
    parts = [end, event.why, f"it blames {event.culprit}" if event.culprit else "", *event.tail[-TAIL:]]
    return ": ".join(part for part in parts if part)


def lose(s: State, worker: Worker, why: str, now: float, *, bars: bool) -> None:
    """It does not count any more. Whatever it still says is answered with the reason."""
    worker.lose(why)
    worker.abort, worker.arrival = why, None
    worker.explained = bool(worker.cause) and worker.cause in why
    s.last_failure = f"{worker.name} {why}"
    strike(s, worker.node, why, now, at_once=bars)
    s.do(Tell("Warning", "WorkerLost", f"{worker.name} {why}"))
    if not worker.ended:
        s.do(Abort(worker.uid, why))
    stop(s, worker, why, now, ABORTED_GRACE)


def give_up(s: State, worker: Worker, why: str, now: float) -> None:
    """A newcomer that will not be ready: its room is released, its node avoided."""
    _failed_start(s, worker, why, now, own_fault=False)


def _failed_start(s: State, worker: Worker, how: str, now: float, *, own_fault: bool) -> None:
    if worker.going:
        worker.end()
        return
    if own_fault and worker.attempt == s.restarts and not selectors.holders(s) and worker.role == "core":
        begin_again(s)
    failed_again(s, worker.role, f"{worker.name} {how}", now)
    lose(s, worker, how, now, bars=True)


def _blame(s: State, worker: Worker, how: str, now: float) -> None:
    """A process has failed by its own fault: counted once for all that one cause took, in a row until the job gets
    further. Surplus that is in no round does not count. A worker that was told to go, or has returned, is judged elsewhere.

    A process that began before the last failure may have failed with it. In a round, the first that ends is the cause:
    the others may die of that in Horovod's `init`.
    """
    inside = any(worker is one for one in selectors.entitled(s))
    returned = s.finishing_at is not None or (worker.exit is not None and bool(worker.exit.returned))
    if returned or worker.going or selectors.released(s, worker) or not (inside or worker.role == "core"):
        return
    began = s.published_at if inside else worker.seated_at or worker.since
    others = [s.workers.get(seat.uid) for seat in s.record.ring if seat.uid != worker.uid]
    if began < s.failed_at or (inside and any(w is None or not w.alive or w.fallen for w in others)):
        return
    s.failures, s.failed_at = s.failures + 1, now
    s.last_failure = f"{worker.name} {how}"


def further(s: State, step: int, epoch: float) -> None:
    """A member tells how far it is. Beyond where any ever was, failures are in a row no more, unless they were too many
    already.
    """
    if step <= s.furthest[0] and epoch <= s.furthest[1]:
        return
    s.furthest = (max(step, s.furthest[0]), max(epoch, s.furthest[1]))
    s.held = 0.0
    if not too_often(s):
        s.failures, s.last_failure = 0, ""


def too_often(s: State) -> bool:
    """Failures in a row are more than the job may have. A single one never ends a job whose state lives on."""
    return s.spec is not None and s.failures > max(1, s.spec.max_restarts)


def begin_again(s: State) -> None:
    """The whole gang is started anew; that is counted, once for all that failed together."""
    s.restarts += 1


def failed_again(s: State, role: str, why: str, now: float, *, pause: bool = True, crowd: int = 0) -> None:
    """The next start of this role waits: not after the first failure in a row, then one second, doubled by each further
    one. In a crowd, of so many jobs of the namespace, one that has failed for a while waits for its turn.

    Those that fail together are one, however many they are: who fails before the next start is no failure of that.
    """
    former = s.backoff.get(role, Backoff())
    if now < former.until or (not pause and now - former.failed_at < TOGETHER):
        return
    failures, until = former.failures + 1, former.until
    if pause and failures > 1:
        usual = min(s.limits.backoff_most, 2.0 ** min(failures - 2, 20))
        turn = crowd * s.limits.backoff_each
        crowded = failures > ALONE and turn > s.limits.backoff_most
        until = now + (turn * _apart(s.key) if crowded else usual)
    s.backoff[role] = Backoff(failures, now, until, why)


def _apart(key: str) -> float:
    """From 0.5 to 1.5, by the job's name: many that were refused together are not tried together again."""
    return 0.5 + zlib.crc32(key.encode()) / 2**32


def waited_for(s: State, role: str, now: float) -> Backoff | None:
    """The failures that a start of this role has to wait for; None: it may be made."""
    last = max((s.backoff.get(one, Backoff()) for one in WAITS_FOR[role]), key=lambda one: one.until)
    return last if now < last.until else None


def stop(s: State, worker: Worker, why: str, now: float, grace_s: float) -> None:
    """Have its pod deleted. A process that still runs is told why."""
    worker.stop(why, now)
    s.do(StopWorker(worker.uid, grace_s, worker.stopped))


def strike(s: State, node: str, why: str, now: float, *, at_once: bool) -> None:
    """A failure of this node: it is avoided at once, or from the second on.

    Workers of it that fail together are one, however many they are; the gravest says how long it is avoided.
    """
    since = now - s.barred_at.get(node, now)
    former = s.barred.get(node) if since < s.limits.forgiven else None
    together = former is not None and since < TOGETHER
    if not node or (together and not at_once):
        return
    failures = (former.failures if former else 0) + (not together)
    doublings = failures - (1 if at_once else 2)
    seconds = min(s.limits.bar_most, s.limits.bar * 2.0 ** min(doublings, 20)) if doublings >= 0 else 0.0
    until = max(now + seconds, former.until if former else 0.0)
    s.barred[node] = Barred(node, failures, until, shortened(why))
    if not together:
        s.barred_at[node] = now


def avoided(s: State, now: float) -> tuple[str, ...]:
    """Nodes that new workers had better not go to."""
    barred = {one.node for one in s.barred.values() if one.until > now}
    return tuple(sorted(barred | set(s.doomed)))


def forgive(s: State, now: float) -> None:
    """What is long ago is forgotten: nodes, so that memory stays small, and failures, which are in a row no more."""
    for role, former in list(s.backoff.items()):
        if _steady(s, role, former, now):
            del s.backoff[role]
    for node, at in list(s.barred_at.items()):
        if now - at > s.limits.forgiven and s.barred[node].until <= now:
            del s.barred[node], s.barred_at[node]


def _steady(s: State, role: str, former: Backoff, now: float) -> bool:
    """The job trains, nobody of the role is on the way who may fail, and so it was for a while."""
    trains = bool(s.record.ring) and s.settled and s.flight is None
    asked = any(start.role == role for start in s.starts.values())
    coming = asked or any(w.role == role and w.seated and w.arrival is None for w in selectors.newcomers(s))
    since = max(former.failed_at, former.until, s.changed_at or 0.0)
    return trains and not coming and now - since > s.limits.steady
