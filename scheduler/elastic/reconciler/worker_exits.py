"""How workers end, and the consequences for them, their nodes and the next start.

Lives here: exits of processes and pods, declaring workers lost, avoiding nodes, and which failures count. Never here:
whether a worker is silent for too long (`failure_detection`), or the consequences for the round (`round_transition`).

If a signal kills a member's process, the process is restarted inside its pod, as a newcomer. The pod keeps its node,
and the state comes from the other members. A process that exits with a code of its own had a reason, so its pod is
deleted.
"""

from scheduler.elastic.job.status import Status
from scheduler.elastic.reconciler import checkpoints, selectors, start_backoff
from scheduler.elastic.reconciler.job_effects import Abort, StopWorker, Tell
from scheduler.elastic.reconciler.job_events import Exited, WorkerSeen
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

ABORTED_GRACE = 5.0
"""Grace period in seconds, for the agent of a killed process to send its last report."""
KILLED = 128
"""Exit codes from this one on are a shell's notation for a signal."""
TAIL = 3
"""Number of last log lines to show."""


def restored(s: State, status: Status) -> None:
    """Restore the number of gang restarts, and the progress."""
    s.exits.restarts = status.restarts
    s.exits.furthest = (s.rounds.record.step, s.rounds.record.epoch)


def forget(s: State) -> None:
    """Failures of former workers say nothing about new ones."""
    s.exits.last, s.exits.count = "", 0


def exited(s: State, event: Exited, now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None:
        return
    if worker.ended:
        if worker.exit is None:  # the pod's phase was reported first
            worker.exit = event
            checkpoints.ended(s, worker, _how(event))
        return
    if event.round is not None and event.round < worker.in_round:
        return
    last = worker.exit.process if worker.exit else None
    if event.process is not None and last is not None and event.process <= last:
        return  # the exit of this or a later process is known: the agent did not get the answer
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


def pod_ended(s: State, worker: Worker, event: WorkerSeen, now: float) -> None:
    """The pod has ended according to the kubelet; usually the agent has reported it before."""
    if not worker.alive:
        return
    if event.phase == "Succeeded":
        _ended_well(s, worker, now, own=False)
    else:
        _gone_wrong(s, worker, f"failed: {event.cause}" if event.cause else "failed: pod phase Failed", now)


def explain(s: State, worker: Worker) -> None:
    """Report the cause that Kubernetes gives, once; it may arrive after the agent's report, or after silence. It
    precedes the earlier text, because long texts are cut at the end.
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
    start_backoff.reworded(s, worker.node, (before, said), (worker.lost, more))
    s.exits.last = more if s.exits.last == said else s.exits.last


def _ended_well(s: State, worker: Worker, now: float, *, own: bool) -> None:
    """own: its agent has reported this exit. Without that, the pod may have ended only because its agent left."""
    worker.end(well=True)
    inside = any(seat.uid == worker.uid for seat in s.rounds.record.ring) and not worker.fallen
    finished = own and inside and s.rounds.published and not leaves_early(worker)
    if selectors.released(s, worker) or (worker.going and not finished):
        stop(s, worker, "it has left cleanly", now)
    elif inside and s.rounds.published:  # asked to leave or not: nothing makes a training exit with code 0
        s.exits.finishing_at = now if s.exits.finishing_at is None else s.exits.finishing_at
    else:
        how = "exited with code 0 before it was in a round"
        worker.goes_on()
        if own:
            _blame(s, worker, how, now)
        give_up(s, worker, how, now, own_fault=True)


def leaves_early(worker: Worker) -> bool:
    """It exited with code 0 before its training function had returned."""
    return worker.exit is not None and worker.exit.code == 0 and worker.exit.returned is False


def never_entered(s: State, worker: Worker) -> bool:
    """Its script is of another kind: there is a sign of it, or it has ended without elastic Horovod, and would do so
    again. This holds only for an unforced exit before any training: a later newcomer may find nothing left to do.
    """
    end = worker.exit
    other = end is not None and (bool(end.foreign) or (end.code, end.entered) == (0, False))
    return other and not worker.going and not selectors.released(s, worker) and s.rounds.started_at is None


def _ended_badly(s: State, worker: Worker, event: Exited, now: float) -> None:
    how = _how(event)
    trained = worker in selectors.entitled(s)
    killed = event.signal is not None or (event.code or 0) >= KILLED
    again = killed and not worker.going and (worker.restarting or worker.in_place < s.limits.in_place)
    if not worker.restarting:
        _blame(s, worker, how, now)
    if not again or s.exits.finishing_at is not None or selectors.released(s, worker):
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
        start_backoff.failed_again(s, worker.role, f"{worker.name} {how}", now, pause=False)
    s.do(Tell("Warning", "ProcessRestarted", f"{worker.name} {how}; its process is restarted"))


def _gone_wrong(s: State, worker: Worker, how: str, now: float) -> None:
    if selectors.released(s, worker):
        worker.end()
        stop(s, worker, how, now)
    elif worker in selectors.entitled(s):
        start_backoff.failed_again(s, worker.role, f"{worker.name} {how}", now)
        lose(s, worker, how, now, bars=False)
        worker.end()
    else:
        give_up(s, worker, how, now, own_fault=True)
        worker.end()


def _how(event: Exited) -> str:
    end = f"exited with code {event.code}" if event.signal is None else f"was killed by signal {event.signal}"
    parts = [end, event.why, f"it blames {event.culprit}" if event.culprit else "", *event.tail[-TAIL:]]
    return ": ".join(part for part in parts if part)


def lose(s: State, worker: Worker, why: str, now: float, *, bars: bool) -> None:
    """The worker no longer counts. Its further requests are answered with the reason."""
    worker.lose(why)
    worker.abort, worker.arrival = why, None
    worker.explained = bool(worker.cause) and worker.cause in why
    s.exits.last = f"{worker.name} {why}"
    start_backoff.strike(s, worker.node, why, now, at_once=bars)
    s.do(Tell("Warning", "WorkerLost", f"{worker.name} {why}"))
    if not worker.ended:
        s.do(Abort(worker.uid, why))
    stop(s, worker, why, now)


def give_up(s: State, worker: Worker, how: str, now: float, *, own_fault: bool = False) -> None:
    """Declare a newcomer lost: its resources are freed, and its node is avoided."""
    if worker.going:
        worker.end()
        return
    counts = own_fault and worker.role == "core" and worker.attempt == s.exits.restarts
    if counts and not selectors.holders(s):
        begin_again(s)
    start_backoff.failed_again(s, worker.role, f"{worker.name} {how}", now)
    lose(s, worker, how, now, bars=True)


def _blame(s: State, worker: Worker, how: str, now: float) -> None:
    """A process has failed by its own fault. Failures with one common cause count once, consecutively until the job
    makes progress. Surplus outside of a round does not count. Workers that leave or have returned are judged elsewhere.

    A process that began before the last failure may have failed with it. In a round, the first exit is the cause: the
    other processes may die of it in Horovod's `init`.
    """
    inside = worker in selectors.entitled(s)
    returned = s.exits.finishing_at is not None or (worker.exit is not None and bool(worker.exit.returned))
    if returned or worker.going or selectors.released(s, worker) or not (inside or worker.role == "core"):
        return
    began = s.rounds.published_at if inside else worker.seated_at or worker.since
    others = [s.workers.get(seat.uid) for seat in s.rounds.record.ring if seat.uid != worker.uid]
    if began < s.exits.at or (inside and any(w is None or not w.alive or w.fallen for w in others)):
        return
    s.exits.count, s.exits.at = s.exits.count + 1, now
    s.exits.last = f"{worker.name} {how}"


def further(s: State, step: int, epoch: float) -> None:
    """A member reports its progress. Progress beyond the maximum so far ends the series of consecutive failures, unless
    they were too many already.
    """
    if step <= s.exits.furthest[0] and epoch <= s.exits.furthest[1]:
        return
    s.exits.furthest = (max(step, s.exits.furthest[0]), max(epoch, s.exits.furthest[1]))
    if not too_often(s):
        s.exits.count, s.exits.last = 0, ""


def too_often(s: State) -> bool:
    """There are more consecutive failures than allowed. A single one never ends a job whose state survives."""
    return s.spec is not None and s.exits.count > max(1, s.spec.max_restarts)


def begin_again(s: State) -> None:
    """Count a restart of the whole gang; simultaneous failures count once."""
    s.exits.restarts += 1


def stop(s: State, worker: Worker, why: str, now: float) -> None:
    """Have its pod deleted. A process that still runs is told the reason."""
    worker.stop(why, now)
    s.do(StopWorker(worker.uid, ABORTED_GRACE, worker.stopped))
