"""Event handlers: record facts, decide nothing.

Lives here: one function for each kind of event that only reports. Never here: process exits (`worker_exits`), rules.
Handlers accept events that are repeated, late or out of order: rounds only grow, and ends are final. Events from a
worker without a known pod are dropped, because pods define which workers exist.
"""

from scheduler.elastic.job.status import WorkerPhase
from scheduler.elastic.reconciler import (
    checkpoints,
    completion,
    failure_detection,
    job_events,
    round_transition,
    scaling,
    selectors,
    start_backoff,
    status_report,
    template_revision,
    throughput,
    worker_exits,
)
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

REMEMBERED = 1000
"""Number of deleted pods to remember. Late events arrive within seconds, and a job creates few pods per second."""
ALIEN = "has other tensors than the members"


def restored(s: State, event: job_events.Restored, now: float) -> None:
    """Restore the previous master's state. No worker counts as lost until twice the silence limit has passed."""
    s.listed = False
    failure_detection.hush(s, now)
    template_revision.restored(s, event)
    status = event.status
    if status is None:
        return
    round_transition.restored(s, status, now)
    worker_exits.restored(s, status)
    start_backoff.restored(s, status, now)
    checkpoints.restored(s, status)
    throughput.restored(s, status)
    status_report.restored(s, status)
    scaling.restored(s, status)
    completion.restored(s, status)


def listed(s: State, _: job_events.Listed, _now: float) -> None:
    """Members without a pod are gone."""
    s.listed = True
    scaling.listed(s)


def spec_seen(s: State, event: job_events.SpecSeen, _now: float) -> None:
    scaling.spec_seen(s, event.spec)
    s.spec, s.generation, s.problems = event.spec, event.generation, ()
    template_revision.seen(s, event.spec.template)
    if not event.spec.suspend:
        checkpoints.try_again(s)


def spec_refused(s: State, event: job_events.SpecRefused, _now: float) -> None:
    if event.problems != s.problems:
        s.do(Tell("Warning", "InvalidSpec", "; ".join(map(str, event.problems))))
    s.problems, s.generation = event.problems, event.generation


def worker_seen(s: State, event: job_events.WorkerSeen, now: float) -> None:
    if event.uid in s.gone:
        return
    worker = s.workers.get(event.uid)
    if worker is None:
        since = now if event.since is None else event.since
        worker = Worker(event.uid, event.name, since, beat_at=now, attempt=s.exits.restarts)
        s.workers[event.uid] = worker
        scaling.answered(s, event)
    if event.deleting:
        scaling.taken_away(s, worker)
    _pod(worker, event, now)
    scaling.numbered(s, event.number)
    if event.phase in {"Succeeded", "Failed"}:
        worker.pod_ended = True
        worker_exits.pod_ended(s, worker, event, now)
    worker_exits.explain(s, worker)


def worker_gone(s: State, event: job_events.WorkerGone, _now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None:
        return
    if worker.alive and worker in selectors.entitled(s):
        s.do(Tell("Warning", "WorkerLost", f"The pod of {worker.name} was deleted"))
    checkpoints.ended(s, worker, "its pod was deleted")
    del s.workers[event.uid]
    s.gone[event.uid] = None
    for uid in list(s.gone)[:-REMEMBERED]:
        del s.gone[uid]


def _pod(worker: Worker, event: job_events.WorkerSeen, now: float) -> None:
    """Copy the pod's facts; most of them change in one direction only."""
    worker.role = event.role
    worker.number = event.number or worker.number
    worker.gated = event.gated
    worker.avoids = event.avoids
    worker.node = event.node or worker.node
    if event.deleting:
        worker.delete()
    if bool(event.waiting) != bool(worker.waiting):
        worker.waiting_since = now
    worker.waiting = event.waiting
    if not worker.explained:
        worker.cause = "" if event.plain else event.cause
    if worker.seated and worker.seated_at is None:
        worker.seated_at = now


def lost_sight(s: State, event: job_events.LostSight, _now: float) -> None:
    """From now on the facts about pods may be outdated; what workers report themselves is not."""
    s.blind = event.why


def saw_again(s: State, _: job_events.SawAgain, now: float) -> None:
    """The watch reports missed changes in no particular order, so every limit on a pod starts again."""
    if not s.blind:
        return
    s.blind = ""
    for start in s.sizing.starts.values():
        start.at = now
    for worker in s.workers.values():
        worker.waiting_since = now


def beat(s: State, event: job_events.Beat, now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None or not worker.alive:
        return
    round_transition.named(s, event.round)
    worker.beat_at = now
    # Late beat: the rounds of a process only grow (its steps may not: a failure takes them back to the last commit).
    if 0 < event.round <= worker.past or event.round < worker.in_round:
        return
    young = worker.beat is None and event.phase in {WorkerPhase.STARTING, WorkerPhase.WARMING_UP}
    if young and worker.told < s.rounds.record.number and worker in selectors.ring(s):
        worker.fallen = True  # its process was restarted while no master was running
    worker.beat, worker.committed = event, event.committed
    worker.took = event.step_s or worker.took
    if event.round:
        round_transition.committed(s, event.committed)
        worker_exits.further(s, event.step, event.epoch)
    if event.child != "stopped":
        worker.frozen_at = None
    elif worker.frozen_at is None:
        worker.frozen_at = now
    resumed = event.round == s.rounds.record.number > 0 and event.phase == WorkerPhase.TRAINING
    worker.knows = worker.knows or resumed
    if resumed and worker.arrival and worker.arrival.round < event.round:
        worker.arrival = None  # late arrival: the worker has continued since
    checkpoints.heard(s, worker)
    throughput.taken(s, worker, event, now)


def arrived(s: State, event: job_events.Arrived, now: float) -> None:
    """The worker is at the barrier. A late arrival from a round that it has left since changes nothing."""
    worker = s.workers.get(event.uid)
    if worker is None or not worker.alive:
        return
    round_transition.named(s, event.round)
    worker.beat_at = now
    newcomer = event.why == "newcomer" or event.round == 0
    worker.fallen = worker.fallen or (newcomer and _successor(s, worker))
    inside = any(seat.uid == worker.uid for seat in s.rounds.record.ring) and not worker.fallen
    if inside and event.round < s.rounds.record.number == worker.in_round:
        return
    if worker.fallen and not newcomer:
        return  # the process that sent this has ended
    if worker.arrival is not None and event.round < worker.arrival.round:
        return
    if newcomer and not inside and not _fits(s, worker, event, now):
        return
    if not newcomer and event.fingerprint is not None and worker in selectors.entitled(s):
        _learn(s, event.fingerprint, now)
    if worker.arrival is None:
        worker.arrived_at = now
    worker.arrival, worker.committed = event, event.committed
    if not newcomer:
        round_transition.committed(s, event.committed)
        worker_exits.further(s, event.step, 0.0)
    if worker.ready_at is None and not selectors.has_state(worker):
        worker.ready_at = now
        if newcomer:
            throughput.warmed(s, now - (worker.seated_at or worker.since))
    worker.place = event.place or worker.place
    if inside and event.round == s.rounds.record.number and not s.rounds.record.setup:
        round_transition.paused(s, now)


def _successor(s: State, worker: Worker) -> bool:
    """A newcomer in the place of a member with state: that member's process ended while no master was running."""
    record = s.rounds.record
    seats = record.ring[: int(record.step > 0)] if record.sync else record.ring
    return worker.told < record.number and any(seat.uid == worker.uid for seat in seats)


def _fits(s: State, worker: Worker, event: job_events.Arrived, now: float) -> bool:
    """A newcomer with other tensors than the members would hang them in the first broadcast."""
    if event.fingerprint is None:
        return True
    if not selectors.holders(s):
        s.fingerprint = event.fingerprint
    if s.fingerprint is None or s.fingerprint == event.fingerprint:
        return True  # not known yet; members report it when they come to the barrier
    worker_exits.give_up(s, worker, ALIEN, now)
    return False


def _learn(s: State, fingerprint: str, now: float) -> None:
    """The members' fingerprint is authoritative; waiting newcomers with a different one are removed."""
    s.fingerprint = fingerprint
    for one in selectors.ready(s):
        said = one.arrival
        if said and said.why == "newcomer" and said.fingerprint not in {None, fingerprint}:
            worker_exits.give_up(s, one, ALIEN, now)


def leaving(s: State, event: job_events.Leaving, now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None or not worker.alive:
        return
    worker.beat_at = now
    scaling.taken_away(s, worker)
    worker.leave(event.why or "was asked to exit")


def node_doomed(s: State, event: job_events.NodeDoomed, now: float) -> None:
    s.doomed[event.node] = (event.why, s.doomed.get(event.node, ("", now))[1])


def node_cleared(s: State, event: job_events.NodeCleared, _now: float) -> None:
    s.doomed.pop(event.node, None)
