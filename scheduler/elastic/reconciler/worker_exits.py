"""How workers end, and what follows for them, their nodes and the next start.

Lives here: ends of processes and pods, the giving up of those that do not answer, and the back-off from nodes. Which of
these failures count is said here too. Never here: whether a worker is silent for too long (`failure_detection`), or what becomes of
the round (`round_transition`).

A member whose process was killed by a signal is started again inside its pod, as a newcomer: the seat is kept, and the
state comes from those that live. One that ended with a code of its own had a reason, and its pod goes.
"""

from scheduler.elastic.job.status import Status
from scheduler.elastic.reconciler import checkpoints, selectors, start_backoff
from scheduler.elastic.reconciler.job_effects import Abort, StopWorker, Tell
from scheduler.elastic.reconciler.job_events import Exited, WorkerSeen
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

ABORTED_GRACE = 5.0
"""Seconds for the agent of a killed process to send what it knows."""
KILLED = 128
"""Codes from here on are a shell's way to name a signal."""
TAIL = 3
"""Lines of the end of a log that are shown."""


def restored(s: State, status: Status) -> None:
    """How often the gang began again, and how far it is."""
    s.exits.restarts = status.restarts
    s.exits.furthest = (s.rounds.record.step, s.rounds.record.epoch)


def forget(s: State) -> None:
    """Failures of former workers say nothing of those to come."""
    s.exits.last, s.exits.count = "", 0


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
    last = worker.exit.process if worker.exit else None
    if event.process is not None and last is not None and event.process <= last:
        return  # of this process, or of a later one, the end is known: the agent did not get our answer
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
    start_backoff.reworded(s, worker.node, (before, said), (worker.lost, more))
    s.exits.last = more if s.exits.last == said else s.exits.last


def _ended_well(s: State, worker: Worker, now: float, *, own: bool) -> None:
    """own: its training process has ended so, by its agent's word. A pod ends so, too, when its agent leaves."""
    worker.end(well=True)
    inside = any(seat.uid == worker.uid for seat in s.rounds.record.ring) and not worker.fallen
    finished = own and inside and s.rounds.published and not leaves_early(worker)
    if selectors.released(s, worker) or (worker.going and not finished):
        stop(s, worker, "it has left in order", now)
    elif inside and s.rounds.published:  # told to go or not: nobody tells a training to end with code 0
        s.exits.finishing_at = now if s.exits.finishing_at is None else s.exits.finishing_at
    else:
        how = "ended with code 0 before it was in a round"
        worker.goes_on()
        if own:
            _blame(s, worker, how, now)
        give_up(s, worker, how, now, own_fault=True)


def leaves_early(worker: Worker) -> bool:
    """It has ended with code 0, and its training function had not returned."""
    return worker.exit is not None and worker.exit.code == 0 and worker.exit.returned is False


def never_entered(s: State, worker: Worker) -> bool:
    """Its script is of another kind, by a sign of it or because it came to its end without elastic Horovod. It would do so
    again. That is said of its own accord and before anything was trained: a later newcomer may find nothing left to do.
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
    s.do(Tell("Warning", "ProcessRestarted", f"{worker.name} {how}; its process is started again"))


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
    end = f"ended with code {event.code}" if event.signal is None else f"was killed by signal {event.signal}"
    parts = [end, event.why, f"it blames {event.culprit}" if event.culprit else "", *event.tail[-TAIL:]]
    return ": ".join(part for part in parts if part)


def lose(s: State, worker: Worker, why: str, now: float, *, bars: bool) -> None:
    """It does not count any more. Whatever it still says is answered with the reason."""
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
    """A newcomer that will not be ready: its room is released, its node avoided."""
    if worker.going:
        worker.end()
        return
    counts = own_fault and worker.role == "core" and worker.attempt == s.exits.restarts
    if counts and not selectors.holders(s):
        begin_again(s)
    start_backoff.failed_again(s, worker.role, f"{worker.name} {how}", now)
    lose(s, worker, how, now, bars=True)


def _blame(s: State, worker: Worker, how: str, now: float) -> None:
    """A process has failed by its own fault: counted once for all that one cause took, in a row until the job gets
    further. Surplus that is in no round does not count. A worker that was told to go, or has returned, is judged elsewhere.

    A process that began before the last failure may have failed with it. In a round, the first that ends is the cause:
    the others may die of that in Horovod's `init`.
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
    """A member tells how far it is. Beyond where any ever was, failures are in a row no more, unless they were too many
    already.
    """
    if step <= s.exits.furthest[0] and epoch <= s.exits.furthest[1]:
        return
    s.exits.furthest = (max(step, s.exits.furthest[0]), max(epoch, s.exits.furthest[1]))
    if not too_often(s):
        s.exits.count, s.exits.last = 0, ""


def too_often(s: State) -> bool:
    """Failures in a row are more than the job may have. A single one never ends a job whose state lives on."""
    return s.spec is not None and s.exits.count > max(1, s.spec.max_restarts)


def begin_again(s: State) -> None:
    """The whole gang is started again; that is counted, once for all that failed together."""
    s.exits.restarts += 1


def stop(s: State, worker: Worker, why: str, now: float) -> None:
    """Have its pod deleted. A process that still runs is told why."""
    worker.stop(why, now)
    s.do(StopWorker(worker.uid, ABORTED_GRACE, worker.stopped))
