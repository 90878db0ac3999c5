"""Queries about a job's workers that several rules use.

Lives here: answers; nothing is changed. Never here: what follows from them.
"""

import statistics
from collections.abc import Iterable

from scheduler.elastic.job.status import Round, Seat, WorkerPhase
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker


def known(s: State, seats: Iterable[Seat]) -> list[Worker]:
    """Workers in these places whose pods exist."""
    return [s.workers[seat.uid] for seat in seats if seat.uid in s.workers]


def ring(s: State) -> list[Worker]:
    """Members of the round whose processes may be in it, by rank."""
    found = map(s.workers.get, [seat.uid for seat in s.rounds.record.ring])
    return [w for w in found if w is not None and w.alive and not w.fallen]


def entitled(s: State) -> list[Worker]:
    """Members, and workers that wait at the barrier with an earlier round's state."""
    found = map(s.workers.get, [seat.uid for seat in (*s.rounds.record.ring, *s.rounds.record.holding)])
    return [w for w in found if w is not None and w.alive and not w.fallen]


def planned(s: State) -> set[Uid]:
    """Members of the round that is decided but not yet stored in the API server."""
    planned = s.rounds.transition and s.rounds.transition.planned
    return {seat.uid for seat in planned.ring} if planned else set()


def released(s: State, w: Worker) -> bool:
    """A round told it to leave."""
    return w.released_at is not None or any(seat.uid == w.uid for seat in s.rounds.record.leaving)


def newcomers(s: State) -> list[Worker]:
    """Workers without a state of their own that may join."""
    seats = {seat.uid for seat in (*s.rounds.record.ring, *s.rounds.record.holding)}
    return [
        w for w in s.workers.values()
        if w.alive and not w.going and (w.fallen or w.uid not in seats) and not released(s, w)
    ]  # fmt: skip


def attained(s: State, record: Round, now: float) -> float:
    """Worker-seconds of the job up to now; record: the current round, or the one that has just ended."""
    since = now if s.rounds.attained_at is None else s.rounds.attained_at
    return s.rounds.attained + len(record.ring) * max(0.0, now - since)


def lasting(s: State) -> list[Worker]:
    """Workers that count: neither leaving nor being replaced."""
    people = (*entitled(s), *newcomers(s))
    return [w for w in people if not w.going and w.node not in s.doomed and w.uid != s.straggler.uid]


def ready(s: State) -> list[Worker]:
    """Newcomers that have warmed up and are at the barrier."""
    return [w for w in newcomers(s) if w.arrival and w.frozen_at is None]


def has_state(w: Worker) -> bool:
    """It has trained and still holds the result. This excludes newcomers, even if a round lists them, restarted
    processes, and workers whose round failed before the first commit.
    """
    return w.knows if w.arrival is None else position(w) >= 0


def holders(s: State) -> list[Worker]:
    """Workers that hold the training state in memory."""
    return [w for w in entitled(s) if has_state(w)]


def position(w: Worker) -> int:
    """The step of the state of a worker at the barrier; −1 without a state.

    A failed round leaves the state of the last commit. At step 0 a worker has no state that others lack: the initial
    state of a script may differ among processes, and nothing has synchronized it yet.
    """
    if w.arrival is None or w.arrival.why == "newcomer":
        return -1
    step = w.arrival.committed if w.arrival.why == "failure" else w.arrival.step
    return step if step > 0 else -1


def began_another(w: Worker) -> bool:
    """It is about to begin the next training of its script. If all are, the job takes over that state. For a newcomer
    that skipped the finished trainings, it is the script's initial state.
    """
    return w.arrival is not None and (w.arrival.why == "another" or w.arrival.another)


def newness(w: Worker) -> tuple[bool, int]:
    """Sort key for the state of a worker at the barrier: higher means newer."""
    return position(w) >= 0 and not began_another(w), position(w)


def step_s(s: State) -> float:
    """Median seconds of a step; 0 if none was reported."""
    told = [w.took for w in ring(s) if w.took]
    return statistics.median(told) if told else 0.0


def stands(s: State) -> bool:
    """The round can be, or is being, trained in: no transition has begun, and no member is gone or has left it."""
    if s.rounds.transition is not None or not allowed(s):
        return False
    members, record = ring(s), s.rounds.record
    left = any(w.arrival and w.arrival.round >= record.number for w in members)
    return len(members) == len(record.ring) and not left


def trains(w: Worker, record: Round) -> bool:
    """It reports that it trains in this round."""
    return w.in_round == record.number and w.beat is not None and w.beat.phase == WorkerPhase.TRAINING


def broken(s: State) -> int:
    """The number of the round if a member's process ended before all were seen to train in it, else 0. Silence does not
    count: a worker declared lost for it may still be in the round.
    """
    if not (s.listed and s.rounds.published) or s.rounds.settled:
        return 0
    members = (s.workers.get(seat.uid) for seat in s.rounds.record.ring)
    return s.rounds.record.number if any(w is None or w.ended or w.fallen for w in members) else 0


def tried(s: State) -> bool:
    """A member has been in the round, so its assignments cannot be changed."""
    return any(w.in_round >= s.rounds.record.number for w in ring(s)) or s.rounds.settled


def allowed(s: State) -> bool:
    """Its size is within the bounds, or was when it began."""
    size, spec = len(s.rounds.record.ring), s.spec
    return size == 0 or spec is None or spec.clamp(size) == size or tried(s)


def at_rest(s: State) -> bool:
    """Every further step is caused by an event, or has a deadline (`scaling.due`).

    Either the job is over, suspended, or without a valid spec so far, and none of its processes is left. Pods may still
    exist, for users to inspect or because of a finalizer. A pod deleted before it has a node never gets a process.
    Or none of its pods has a node or a deletion to repeat: they wait to be scheduled, or the API server rejects them.
    """
    people = s.workers.values()
    if s.completion.over is not None or s.spec is None or s.spec.suspend:
        return not any(w.alive and (w.node or not w.deleting) for w in people)
    return not any(w.node or (w.stopped and not w.deleting) for w in people)


def busy(s: State) -> list[Worker]:
    """Members at work, and workers that are leaving."""
    members = {w.uid for w in entitled(s)}
    return [w for w in s.workers.values() if w.alive and (w.uid in members or released(s, w))]


def names(workers: Iterable[Worker], most: int = 4) -> str:
    """The first names for messages, and the number of the others."""
    listed = [w.name for w in workers]
    rest = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + rest


def epoch(s: State) -> float:
    """The last reported epoch of a state that still exists, in memory or in a checkpoint."""
    kept = s.rounds.record.ring or s.rounds.record.holding or (s.spec and s.spec.checkpoint.path)
    return max([began_in(s) if kept else 0.0, *(w.beat.epoch for w in ring(s) if w.beat)])


def began_in(s: State) -> float:
    """The epoch in which the round began, if known. After loading a checkpoint the members report it, because it may be
    older than earlier reports. Epoch 0 does not count: workers that have not counted yet report it.
    """
    record = s.rounds.record
    told = [w.beat.epoch for w in ring(s) if w.beat and w.in_round == record.number and w.beat.epoch > 0]
    return min(told) if record.restore and told else record.epoch


def awaited(s: State) -> list[Worker]:
    """Workers with a state that are not at the barrier yet."""
    return [w for w in entitled(s) if w.arrival is None]


def saving(s: State) -> Worker | None:
    """The worker that saves to disk before anything else happens."""
    worker = s.workers.get(s.rounds.record.saver or "")
    return worker if worker and worker.alive else None
