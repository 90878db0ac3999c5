"""What each event says, noted: facts in, nothing decided.

Lives here: one function for each kind of event that only tells. Never here: ends of processes (`worker_exits`), rules.
Every note can be made twice, late or out of order: rounds only grow, ends are final, and what is told of a worker that
nobody knows is dropped (the pods say who a worker is).
"""

import msgspec

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status import OVER, Phase, Status, WorkerPhase
from scheduler.elastic.reconciler import (
    checkpoints,
    selectors,
    template_revision,
    throughput,
    worker_exits,
)
from scheduler.elastic.reconciler.job_effects import Tell
from scheduler.elastic.reconciler.job_events import (
    Arrived,
    Beat,
    Leaving,
    Listed,
    LostSight,
    NodeCleared,
    NodeDoomed,
    Restored,
    SawAgain,
    Sized,
    SpecRefused,
    SpecSeen,
    StartRefused,
    WorkerSeen,
)
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker

_YOUNG = {WorkerPhase.STARTING, WorkerPhase.WARMING_UP}
"""What a process is before it has been in any round."""
ALIEN = "its state has other tensors than that of the members"


def restored(s: State, event: Restored, now: float) -> None:
    """The memory of the master before this one, whose clock may have been ahead of ours. Nobody is taken for lost
    before two limits have passed.
    """
    s.listed = False
    s.quiet_until = now + 2 * s.limits.silent
    status, s.template = event.status, event.template
    if status is None:
        return
    if status.retired is not None:
        s.retired = s.counter = status.retired
    if status.template is not None:
        s.template, s.edited, s.edit_told = status.template, event.template, event.template is not None
    if status.assignment is not None:
        s.record = status.assignment
        s.published = True
        s.published_at = now
        s.settled = False
    s.floor = max(s.floor, status.round, s.record.number)
    s.before = status.last_resize.to if status.last_resize else 0
    s.restarts = status.restarts
    s.reached = max(s.record.step, int(status.started_at is not None))
    s.furthest = (s.record.step, s.record.epoch)
    latest = now + s.limits.bar_most
    s.barred = {one.node: msgspec.structs.replace(one, until=min(one.until, latest)) for one in status.barred}
    s.barred_at = {one.node: now for one in status.barred}
    s.started_at = status.started_at
    s.last_resize = status.last_resize
    s.resized = s.record.number if status.phase is Phase.RUNNING else 0
    s.price = throughput.price(status.last_resize, None)
    s.changed_at = min(now, status.last_resize.at) if status.last_resize else None
    s.checkpoint = status.checkpoint
    s.values = dict(status.values)
    s.uses = None if status.uses is None else frozenset(status.uses)
    s.conditions = {one.type: one for one in status.conditions}
    s.saved = bool(s.record.saver and s.checkpoint and s.checkpoint.step >= s.record.step)
    s.save_error = next(
        (one.message for one in status.conditions if one.type == checkpoints.FAILED and one.status), ""
    )
    if status.wanted:
        s.sized = Sized(status.wanted, status.wanted_by, "as before the restart")
    if status.phase in OVER:
        s.over = (status.phase.value, _why_over(status), status.reason)


def _why_over(status: Status) -> str:
    """In one word, as the condition said it."""
    said = (one.reason for one in status.conditions if one.type == Phase.FAILED.value and one.status)
    return next(said, status.phase.value)


def listed(s: State, _: Listed, _now: float) -> None:
    """Members that no pod belongs to are gone. Newcomers stay until the policy speaks: they may have started ahead."""
    s.listed = True
    s.starts.clear()
    if s.sized is not None:
        s.sized = msgspec.structs.replace(s.sized, ahead=len(selectors.lasting(s)))


def spec_seen(s: State, event: SpecSeen, _now: float) -> None:
    if s.spec is not None and s.spec.workers is not None and event.spec.workers is None:
        s.sized = _handed_over(s, s.spec, s.spec.workers)
    s.spec, s.generation, s.problems = event.spec, event.generation, ()
    template_revision.seen(s, event.spec.template)
    if not event.spec.suspend:
        s.save_error = ""  # who suspends it again wants it tried again


def _handed_over(s: State, former: Spec, workers: int) -> Sized | None:
    """The size that the user stated stands until the policy speaks: what it said before may be hours old. Where all
    have gone for a suspension there is none to keep: what there is room for when it goes on is not known.
    """
    if former.suspend and not selectors.entitled(s):
        return None
    return Sized(former.clamp(workers), "user", f"spec.workers was {workers}, until the policy speaks")


def spec_refused(s: State, event: SpecRefused, _now: float) -> None:
    if event.problems != s.problems:
        said = "; ".join(str(one) for one in event.problems)
        s.do(Tell("Warning", "InvalidSpec", said))
    s.problems, s.generation = event.problems, event.generation


def worker_seen(s: State, event: WorkerSeen, now: float) -> None:
    if event.uid in s.gone:
        return
    worker = s.workers.get(event.uid)
    if worker is None:
        since = now if event.since is None else event.since
        worker = Worker(event.uid, event.name, since, beat_at=now, attempt=s.restarts)
        s.workers[event.uid] = worker
        _answer_start(s, event)
    if event.deleting:
        _taken_away(s, worker)
    _pod(worker, event, now)
    s.counter = max(s.counter, event.number)
    if event.phase in {"Succeeded", "Failed"}:
        worker.pod_ended = True
        worker_exits.pod_ended(s, worker, event, now)
    worker_exits.explain(s, worker)


def _pod(worker: Worker, event: WorkerSeen, now: float) -> None:
    """What a pod is can change in one direction only."""
    worker.role = event.role
    worker.number = event.number or worker.number
    worker.gated = event.gated
    worker.avoids = event.avoids
    worker.node = event.node or worker.node
    worker.deleting = worker.deleting or event.deleting
    if bool(event.waiting) != bool(worker.waiting):
        worker.waiting_since = now
    worker.waiting = event.waiting
    if not worker.explained:
        worker.cause = "" if event.plain else event.cause
    if worker.seated and worker.seated_at is None:
        worker.seated_at = now


def _taken_away(s: State, worker: Worker) -> None:
    """Surplus that goes by another's will goes where its room is needed more: none is made again until the policy has
    looked.

    Who left a node that is emptied had to go for the node's sake, and has a replacement coming.
    """
    if worker.going or not worker.alive or worker.role != "surplus" or worker.node in s.doomed:
        return
    if s.sized is None or s.spec is None:
        return
    want = s.spec.clamp(s.sized.want)
    early = worker in selectors.newcomers(s) and len(selectors.lasting(s)) > want
    less = want if early else max(s.spec.min_workers, want - 1)
    s.sized = msgspec.structs.replace(s.sized, want=less, ahead=0, reason=f"{worker.name} was taken away")


def _answer_start(s: State, event: WorkerSeen) -> None:
    """The pod that was asked for is there: by its number, else the one that has waited longest in this role."""
    s.refusal = ""
    waiting = sorted(number for number, start in s.starts.items() if start.role == event.role)
    number = event.number or next(iter(waiting), 0)
    s.starts.pop(number, None)
    s.unseen.pop(number, None)


def start_refused(s: State, event: StartRefused, now: float) -> None:
    """Also of a start that is taken for not made by now: a refusal that may pass is told after a row of tries, and
    dropped it would be asked for again without a pause and without a word.
    """
    start = s.starts.pop(event.number, None) or s.unseen.pop(event.number, None)
    if start is None:
        return
    if event.why != s.refusal:  # the status says it all the time
        s.do(Tell("Warning", "StartRefused", f"the API server made no pod: {event.why}"))
    s.refusal = event.why
    worker_exits.failed_again(s, start.role, event.why, now, crowd=event.crowd)


def lost_sight(s: State, event: LostSight, _now: float) -> None:
    """From now on what is known of pods may be the past; what workers say themselves is not."""
    s.blind = event.why


def saw_again(s: State, _: SawAgain, now: float) -> None:
    """What came true meanwhile is told in no order: whatever a pod may take too long for begins anew."""
    if not s.blind:
        return
    s.blind = ""
    for start in s.starts.values():
        start.at = now
    for worker in s.workers.values():
        worker.waiting_since = now


def beat(s: State, event: Beat, now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None or not worker.alive:
        return
    s.floor = max(s.floor, event.round)
    worker.beat_at = now
    former = worker.beat
    if 0 < event.round <= worker.past or (former is not None and _older(event, former)):
        return
    if (
        former is None
        and event.phase in _YOUNG
        and worker.told < s.record.number
        and worker in selectors.ring(s)
    ):
        worker.fallen = True  # its process was started again while no master was there
    worker.beat, worker.committed = event, event.committed
    worker.took = event.step_s or worker.took
    if event.round:
        s.reached = max(s.reached, event.committed)
        worker_exits.further(s, event.step, event.epoch)
    if event.child != "stopped":
        worker.frozen_at = None
    elif worker.frozen_at is None:
        worker.frozen_at = now
    resumed = event.round == s.record.number > 0 and event.phase == WorkerPhase.TRAINING
    worker.knows = worker.knows or resumed
    if resumed and worker.arrival and worker.arrival.round < event.round:
        worker.arrival = None  # a late word: it has gone on since
    checkpoints.heard(s, worker)
    throughput.taken(s, worker, event, now)


def _older(event: Beat, former: Beat) -> bool:
    """Told late: a process's rounds grow (its steps do not always: a failure takes them back to the commit)."""
    return event.round < former.round


def arrived(s: State, event: Arrived, now: float) -> None:
    """At the barrier. What is told late of a round that it has left since changes nothing."""
    worker = s.workers.get(event.uid)
    if worker is None or not worker.alive:
        return
    s.floor = max(s.floor, event.round)
    worker.beat_at = now
    newcomer = event.why == "newcomer" or event.round == 0
    worker.fallen = worker.fallen or (newcomer and _successor(s, worker))
    inside = any(seat.uid == worker.uid for seat in s.record.ring) and not worker.fallen
    if inside and event.round < s.record.number == worker.in_round:
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
        s.reached = max(s.reached, event.committed)
        worker_exits.further(s, event.step, 0.0)
    if worker.ready_at is None and not selectors.has_state(worker):
        worker.ready_at = now
        s.warm = now - (worker.seated_at or worker.since) if newcomer else s.warm
    worker.place = event.place or worker.place
    if inside and event.round == s.record.number and s.paused_at is None and not s.record.setup:
        s.paused_at = now
    throughput.arrived(s, worker, event, now)


def _successor(s: State, worker: Worker) -> bool:
    """A newcomer in whose place the round has one with the state: that process ended while no master was there."""
    seats = s.record.ring if not s.record.sync else s.record.ring[: int(s.record.step > 0)]
    return worker.told < s.record.number and any(seat.uid == worker.uid for seat in seats)


def _fits(s: State, worker: Worker, event: Arrived, now: float) -> bool:
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
        if (
            one.arrival
            and one.arrival.why == "newcomer"
            and one.arrival.fingerprint not in {None, fingerprint}
        ):
            worker_exits.give_up(s, one, ALIEN, now)


def leaving(s: State, event: Leaving, now: float) -> None:
    worker = s.workers.get(event.uid)
    if worker is None or not worker.alive:
        return
    worker.beat_at = now
    _taken_away(s, worker)
    worker.leaving = worker.leaving or event.why or "told to leave"


def node_doomed(s: State, event: NodeDoomed, now: float) -> None:
    _, since = s.doomed.get(event.node, ("", now))
    s.doomed[event.node] = (event.why, since)


def node_cleared(s: State, event: NodeCleared, _now: float) -> None:
    s.doomed.pop(event.node, None)


def sized(s: State, event: Sized, _now: float) -> None:
    s.sized = event
