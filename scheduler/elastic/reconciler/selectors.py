"""Who is who at this moment: questions about a job's workers that several rules ask.

Lives here: answers, nothing is changed. Never here: what follows from them.
"""

import statistics
from collections.abc import Iterable

from scheduler.elastic.job.status import Round, Seat, WorkerPhase
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker


def known(s: State, seats: Iterable[Seat]) -> list[Worker]:
    """Workers that sit there, as far as their pods exist."""
    return [s.workers[seat.uid] for seat in seats if seat.uid in s.workers]


def ring(s: State) -> list[Worker]:
    """Members of the round whose processes may be in it, by rank."""
    found = map(s.workers.get, [seat.uid for seat in s.rounds.record.ring])
    return [w for w in found if w is not None and w.alive and not w.fallen]


def entitled(s: State) -> list[Worker]:
    """Members, and those that wait at the barrier with a former round's state."""
    found = map(s.workers.get, [seat.uid for seat in (*s.rounds.record.ring, *s.rounds.record.holding)])
    return [w for w in found if w is not None and w.alive and not w.fallen]


def planned(s: State) -> set[Uid]:
    """Members of the round that is decided, and not at the API server yet."""
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


def lasting(s: State) -> list[Worker]:
    """Those that count: neither on their way out nor to be replaced."""
    people = (*entitled(s), *newcomers(s))
    return [w for w in people if not w.going and w.node not in s.doomed and w.uid != s.straggler.uid]


def ready(s: State) -> list[Worker]:
    """Newcomers that are warm, at the barrier."""
    return [w for w in newcomers(s) if w.arrival and w.frozen_at is None]


def has_state(w: Worker) -> bool:
    """It trained, and what it learnt is alive in it: no newcomer, not even one that a round was told of, no process
    that was started again, and nobody whose round failed before anything was committed.
    """
    return w.knows if w.arrival is None else position(w) >= 0


def holders(s: State) -> list[Worker]:
    """Those in whose memory the training lives."""
    return [w for w in entitled(s) if has_state(w)]


def position(w: Worker) -> int:
    """The step of the state that a worker at the barrier has; −1 without one.

    A failed round left that of the last commit. At step 0 nobody has anything that others could not have as well: what
    a script begins with may differ from process to process, and no synchronisation has made it one.
    """
    if w.arrival is None or w.arrival.why == "newcomer":
        return -1
    step = w.arrival.committed if w.arrival.why == "failure" else w.arrival.step
    return step if step > 0 else -1


def began_another(w: Worker) -> bool:
    """It stands before the next training of its script. The state of that is the job's where all do; of a newcomer that
    fell through the trainings before, because they are done, it is what the script begins with.
    """
    return w.arrival is not None and (w.arrival.why == "another" or w.arrival.another)


def newness(w: Worker) -> tuple[bool, int]:
    """Of the state that a worker at the barrier has: the higher, the newer."""
    return position(w) >= 0 and not began_another(w), position(w)


def step_s(s: State) -> float:
    """Median seconds of a step; 0 when nobody has said."""
    told = [w.took for w in ring(s) if w.took]
    return statistics.median(told) if told else 0.0


def stands(s: State) -> bool:
    """The round can be, or is being, trained in: none follows it yet, and no member of it is gone or has left it."""
    if s.rounds.transition is not None or not allowed(s):
        return False
    members, record = ring(s), s.rounds.record
    left = any(w.arrival and w.arrival.round >= record.number for w in members)
    return len(members) == len(record.ring) and not left


def trains(w: Worker, record: Round) -> bool:
    """It says that it trains, and in this round."""
    return w.in_round == record.number and w.beat is not None and w.beat.phase == WorkerPhase.TRAINING


def broken(s: State) -> int:
    """The round that stands, where the process of one of its members has ended before all were seen to train in it; 0:
    no such. Silence is no end: who is only given up may still be in it.
    """
    if not (s.listed and s.rounds.published) or s.rounds.settled:
        return 0
    members = (s.workers.get(seat.uid) for seat in s.rounds.record.ring)
    return s.rounds.record.number if any(w is None or w.ended or w.fallen for w in members) else 0


def tried(s: State) -> bool:
    """Somebody was in the round: what it says may not be taken back."""
    return any(w.in_round >= s.rounds.record.number for w in ring(s)) or s.rounds.settled


def allowed(s: State) -> bool:
    """Its size is within the bounds, or was when it began."""
    size, spec = len(s.rounds.record.ring), s.spec
    return size == 0 or spec is None or spec.clamp(size) == size or tried(s)


def at_rest(s: State) -> bool:
    """Nothing happens before it is told, or before its moment (`scaling.due`).

    The job is over or suspended, or no spec of it was ever accepted, and no process of it is left; pods may be: for
    people to read, or because a finalizer keeps them. One that is deleted before it has a node never gets a process.
    Else none of its pods has a node, nor is to be deleted once more: they wait for seats, or the API server makes none.
    """
    people = s.workers.values()
    if s.completion.over is not None or s.spec is None or s.spec.suspend:
        return not any(w.alive and (w.node or not w.deleting) for w in people)
    return not any(w.node or (w.stopped and not w.deleting) for w in people)


def busy(s: State) -> list[Worker]:
    """Members at work, and those that leave."""
    members = {w.uid for w in entitled(s)}
    return [w for w in s.workers.values() if w.alive and (w.uid in members or released(s, w))]


def names(workers: Iterable[Worker], most: int = 4) -> str:
    """Names for people, the rest counted."""
    listed = [w.name for w in workers]
    rest = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + rest


def epoch(s: State) -> float:
    """The last one that anybody told of, of a state that is left: in somebody's memory, or in the checkpoint."""
    kept = s.rounds.record.ring or s.rounds.record.holding or (s.spec and s.spec.checkpoint.path)
    return max([began_in(s) if kept else 0.0, *(w.beat.epoch for w in ring(s) if w.beat)])


def began_in(s: State) -> float:
    """The epoch that the round began in, as far as is known: of one that loaded a checkpoint its members tell, for that
    may be older than what was told before. Nobody tells of epoch 0: it is what those say that have not counted yet.
    """
    record = s.rounds.record
    told = [w.beat.epoch for w in ring(s) if w.beat and w.in_round == record.number and w.beat.epoch > 0]
    return min(told) if record.restore and told else record.epoch


def awaited(s: State) -> list[Worker]:
    """Those with a state that are not at the barrier yet."""
    return [w for w in entitled(s) if w.arrival is None]


def saving(s: State) -> Worker | None:
    """Who saves to disk before anything else happens."""
    worker = s.workers.get(s.rounds.record.saver or "")
    return worker if worker and worker.alive else None
