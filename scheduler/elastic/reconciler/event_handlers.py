"""What each event says, noted: facts in, nothing decided.

Lives here: one function for each kind of event that only tells. Never here: ends of processes (`worker_exits`), rules.
Every note can be made twice, late or out of order: rounds only grow, ends are final, and what is told of a worker that
nobody knows is dropped (the pods say who a worker is).
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
"""Pods that are gone; words come late by seconds, and a job makes few pods a second."""
ALIEN = "its state has other tensors than that of the members"


def restored(s: State, event: job_events.Restored, now: float) -> None:
    """The memory of the master before this one. No worker counts as lost before two limits have passed."""
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
    """Members that no pod belongs to are gone."""
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
        s.do(Tell("Warning", "WorkerLost", f"{worker.name} is gone"))
    checkpoints.ended(s, worker, "its pod is gone")
    del s.workers[event.uid]
    s.gone[event.uid] = None
    for uid in list(s.gone)[:-REMEMBERED]:
        del s.gone[uid]


def _pod(worker: Worker, event: job_events.WorkerSeen, now: float) -> None:
    """What a pod is can change in one direction only."""
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
    """From now on what is known of pods may be the past; what workers say themselves is not."""
    s.blind = event.why


def saw_again(s: State, _: job_events.SawAgain, now: float) -> None:
    """What came true meanwhile is told in no order: whatever a pod may take too long for begins again."""
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
    # Told late: a process's rounds grow (its steps do not always: a failure takes them back to the commit).
    if 0 < event.round <= worker.past or event.round < worker.in_round:
        return
    young = worker.beat is None and event.phase in {WorkerPhase.STARTING, WorkerPhase.WARMING_UP}
    if young and worker.told < s.rounds.record.number and worker in selectors.ring(s):
        worker.fallen = True  # its process was started again while no master was there
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
        worker.arrival = None  # a late word: it has gone on since
    checkpoints.heard(s, worker)
    throughput.taken(s, worker, event, now)


def arrived(s: State, event: job_events.Arrived, now: float) -> None:
    """At the barrier. What is told late of a round that it has left since changes nothing."""
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
        return  # the process that said so has ended
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
    """A newcomer in whose place the round has one with the state: that process ended while no master was there."""
    record = s.rounds.record
    seats = record.ring[: int(record.step > 0)] if record.sync else record.ring
    return worker.told < record.number and any(seat.uid == worker.uid for seat in seats)


def _fits(s: State, worker: Worker, event: job_events.Arrived, now: float) -> bool:
    """A newcomer whose state has other tensors than that of the members would hang them in the first broadcast."""
    if event.fingerprint is None:
        return True
    if not selectors.holders(s):
        s.fingerprint = event.fingerprint
    if s.fingerprint is None or s.fingerprint == event.fingerprint:
        return True  # where it is not known yet, the members say it when they come to the barrier
    worker_exits.give_up(s, worker, ALIEN, now)
    return False


def _learn(s: State, fingerprint: str, now: float) -> None:
    """What the members have is what counts; of newcomers that wait already, the others go."""
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
    worker.leave(event.why or "told to leave")


def node_doomed(s: State, event: job_events.NodeDoomed, now: float) -> None:
    s.doomed[event.node] = (event.why, s.doomed.get(event.node, ("", now))[1])


def node_cleared(s: State, event: job_events.NodeCleared, _now: float) -> None:
    s.doomed.pop(event.node, None)
