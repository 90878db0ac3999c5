"""The transition to the next round, from its cause to the answers that all workers get.

    (a cause) → announced → all members at the barrier → decided → written to the API server → published

Lives here: these steps, one transition at a time. Never here: the causes (`round_triggers`), the members
(`rank_assignment`), the content of a round (`round_plan`). A round is published only after it is stored in the API
server. If a member dies meanwhile, the round is never published, its number is not used again, and the next is decided.
"""

from scheduler.elastic.job.status import Phase, Resize, Round, Status
from scheduler.elastic.reconciler import (
    checkpoints,
    expected_ranks,
    round_plan,
    selectors,
    throughput,
    worker_exits,
)
from scheduler.elastic.reconciler.job_effects import Announce, Assignment, Persist, Publish, Resized, Tell
from scheduler.elastic.reconciler.job_events import Persisted, Uid
from scheduler.elastic.reconciler.job_state import State, Transition
from scheduler.elastic.reconciler.rank_assignment import Choice, Order, choose
from scheduler.elastic.reconciler.round_triggers import FAILED, FRUITLESS, cause, picture, resting, waits
from scheduler.elastic.reconciler.status_report import status
from scheduler.elastic.reconciler.worker import Worker

STOPPED = {"WorkerLost", FAILED}
"""Causes after which no member trains."""
BEGINS = "Started"
"""The cause of the first round."""


def restored(s: State, status: Status, now: float) -> None:
    """Restore the current round, and the cost of earlier changes."""
    rounds = s.rounds
    if status.assignment is not None:
        rounds.record, rounds.published, rounds.published_at = status.assignment, True, now
        rounds.settled = False
    rounds.floor = max(rounds.floor, status.round, rounds.record.number)
    rounds.before = status.last_resize.to if status.last_resize else 0
    rounds.reached = max(rounds.record.step, int(status.started_at is not None))
    rounds.started_at, rounds.last_resize = status.started_at, status.last_resize
    rounds.resized = rounds.record.number if status.phase is Phase.RUNNING else 0
    rounds.price = throughput.price(status.last_resize, None)
    rounds.changed_at = min(now, status.last_resize.at) if status.last_resize else None
    rounds.attained_at = now if status.started_at is None else min(now, status.started_at)


def named(s: State, number: int) -> None:
    """A worker mentions this round, so no later round may use its number."""
    s.rounds.floor = max(s.rounds.floor, number)


def committed(s: State, step: int) -> None:
    """A worker has committed this step."""
    s.rounds.reached = max(s.rounds.reached, step)


def paused(s: State, now: float) -> None:
    """A member has stopped training, for the next round."""
    if s.rounds.paused_at is None:
        s.rounds.paused_at = now


def cancel(s: State) -> None:
    """The job is over: no round follows."""
    s.rounds.transition, s.rounds.pending = None, False


def look(s: State, now: float) -> None:
    """Open a transition if there is a cause, decide it, report what has settled. Does nothing after the job's end."""
    if s.completion.over:
        return
    _settled(s, now)
    if s.rounds.transition is None:
        _open(s, now)
    if s.rounds.transition is not None:
        _decide(s, s.rounds.transition, now)


def _open(s: State, now: float) -> None:
    p = picture(s, now)
    found = cause(p)
    s.rounds.pending = found is not None
    if s.rounds.paused_at is None and resting(p):
        s.rounds.paused_at = now
    s.rounds.joining_at = (now if s.rounds.joining_at is None else s.rounds.joining_at) if p.joining else None
    if found is None or _being_saved(s) or (not found.urgent and waits(p)):
        return
    if not found.urgent and expected_ranks.displaced(s, p.wish):
        return
    number = max(s.rounds.record.number, s.rounds.floor) + 1
    s.rounds.transition = Transition(number, BEGINS if s.rounds.started_at is None else found.name, now)
    s.rounds.floor = number
    if s.rounds.paused_at is None and found.name in STOPPED and s.rounds.record.ring:
        s.rounds.paused_at = now
    if selectors.ring(s):
        s.do(Announce(number))


def _being_saved(s: State) -> bool:
    """The next step needs the checkpoint that is being written."""
    paused = s.spec is not None and s.spec.suspend
    return selectors.saving(s) is not None and (paused or not selectors.holders(s))


def _decide(s: State, flight: Transition, now: float) -> None:
    if flight.planned is not None:
        if _still_true(s, flight.planned):
            if flight.stands:
                _publish(s, flight.planned, now)
            return
        flight.planned, flight.written, flight.stands = None, True, False
        flight.number = s.rounds.floor = max(s.rounds.floor, flight.number) + 1
    if selectors.awaited(s):
        return
    planned = _planned(s, flight, now)
    if planned is None:
        s.rounds.transition = None
        return
    flight.planned = planned
    s.do(Persist(status(s, now)))


def _still_true(s: State, planned: Round) -> bool:
    """No worker in it has died or moved on since, and its size is still allowed."""
    spec = s.spec
    here = [s.workers.get(seat.uid) for seat in (*planned.ring, *planned.holding)]
    if planned.ring and (spec is None or spec.suspend or s.exits.finishing_at is not None):
        return False
    there = all(w is not None and w.alive and w.arrival is not None for w in here)
    size = len(planned.ring)
    return there and spec is not None and (size == 0 or spec.min_workers <= size <= spec.max_workers)


def _planned(s: State, flight: Transition, now: float) -> Round | None:
    """The next round; None if nothing would change that a worker is waiting for."""
    spec = s.spec
    if spec is None:
        return None
    people, save = selectors.entitled(s), False
    if s.exits.finishing_at is not None:
        choice = Choice((), tuple(people))
    elif spec.suspend:
        choice, save = _to_disk(s, people)
    else:
        choice = _fitting(s, [*people, *expected_ranks.able(s)], now)
        save = not choice.ring and bool(spec.checkpoint.path)
    if not choice.ring and not choice.leaving:
        same = {w.uid for w in choice.holding} == {seat.uid for seat in s.rounds.record.holding}
        if same and not s.rounds.record.ring and not flight.written:
            return None
    if not flight.lost and _all_lost(s, choice):
        flight.lost, path = True, spec.checkpoint.path
        worker_exits.begin_again(s)
        s.rounds.reached = s.rounds.reached if path else 0
        whence = f"the last checkpoint in {path}" if path else "the beginning, because there is no checkpoint"
        said = f"No worker has the training state; the gang restarts from {whence}"
        s.do(Tell("Warning", "GangLost", said))
    return round_plan.decided(s, flight.number, flight.cause, choice, save=save)


def _fitting(s: State, people: list[Worker], now: float) -> Choice:
    """Choose without newcomers that set up for another rank or size; those are restarted."""
    size, least = expected_ranks.size(s), s.spec.min_workers if s.spec else 1
    choice = choose(s, people, size, least, now)
    while wrong := expected_ranks.displaced(s, choice.ring):
        people = [w for w in people if w not in wrong]
        choice = choose(s, people, size, least, now)
    return choice


def _to_disk(s: State, people: list[Worker]) -> tuple[Choice, bool]:
    """For a suspension: the worker with the newest state saves and leaves; the others keep theirs until that is done.

    If saving has failed, all keep theirs, except one that has to leave in any case: it tries.
    """
    path = s.spec.checkpoint.path if s.spec else ""
    holders = [w for w in people if selectors.has_state(w)]
    if not path or s.saving.saved or not holders:
        return Choice((), tuple(people)), False
    able = [w for w in holders if w.going or not s.saving.error]
    best = min(able, key=Order(s).seniority, default=None)
    leaving = tuple(w for w in people if w is best or w not in holders)
    return Choice((), leaving, tuple(w for w in holders if w is not best)), True


def _all_lost(s: State, choice: Choice) -> bool:
    """No worker that trained still has the state; if nothing was committed yet, no such worker is left at all."""
    former = {seat.uid for seat in (*s.rounds.record.ring, *s.rounds.record.holding)}
    people = (*choice.ring, *choice.leaving, *choice.holding)
    unconcerned = not former or s.rounds.record.setup or s.exits.finishing_at is not None
    if unconcerned or any(selectors.has_state(w) for w in people):
        return False
    return s.rounds.reached > 0 or not any(w.uid in former for w in people)


def _tell_of_what_is_left_behind(s: State) -> None:
    """Report that workers with the state leave, none keeps it and no path is set: training restarts from step 0."""
    record = s.rounds.record
    if record.ring or record.holding or s.exits.finishing_at is not None or s.rounds.reached <= 0:
        return
    if not record.leaving or s.spec is None or s.spec.checkpoint.path:
        return
    step, s.rounds.reached = s.rounds.reached, 0
    names = ", ".join(seat.name for seat in record.leaving)
    said = f"Training state of step {step} is lost with {names}: spec.checkpoint.path is not set and no worker stays"
    s.do(Tell("Warning", "StateLost", f"{said}; training restarts from the beginning"))


def persisted(s: State, event: Persisted, _now: float) -> None:
    """The planned round is stored in the API server."""
    flight = s.rounds.transition
    if flight is not None and flight.planned is not None and event.round == flight.planned.number:
        flight.stands = True


def _publish(s: State, planned: Round, now: float) -> None:
    """The planned round is stored and still valid: make it the current one, and answer each of its workers."""
    if s.rounds.record.ring and not s.rounds.record.setup:
        s.rounds.before = len(s.rounds.record.ring)
    former, s.rounds.record, s.rounds.transition = s.rounds.record, planned, None
    _count_failures(s, former)
    s.rounds.published, s.rounds.published_at, s.rounds.settled = True, now, False
    s.rounds.joining_at = None
    inside = {seat.uid: rank for rank, seat in enumerate(s.rounds.record.ring)}
    for worker in s.workers.values():
        if worker.uid in inside:
            worker.place = (inside[worker.uid], len(inside))
        worker.fallen = worker.fallen and worker.uid not in inside
        worker.knows = selectors.has_state(worker)
    throughput.begun(s, former)
    s.rounds.attained, s.rounds.attained_at = selectors.attained(s, former, now), now
    if inside:
        checkpoints.begun(s)
        if not s.rounds.record.setup:
            s.rounds.started_at = now if s.rounds.started_at is None else s.rounds.started_at
    s.do(Tell("Normal", "Round", _sentence(s)))
    _tell_of_what_is_left_behind(s)
    _answer(s, dict(round_plan.told(s)), now)


def _count_failures(s: State, former: Round) -> None:
    before = s.rounds.fruitless if s.rounds.record.step <= former.step else 0
    there = [w for w in selectors.known(s, former.ring) if w.alive and not w.fallen]
    s.rounds.fruitless = before + (s.rounds.record.cause == FAILED and len(there) == len(former.ring))
    if before < s.rounds.fruitless == FRUITLESS:
        said = f"{FRUITLESS} rounds failed without a commit since step {s.rounds.record.step}; later rounds are delayed"
        s.do(Tell("Warning", "NoProgress", f"{said}. See the workers' last log lines"))


def repeat(s: State, now: float) -> None:
    """Repeat the answer to workers that ask again, while it is valid."""
    told = round_plan.told(s) if s.rounds.published else {}
    asking = [w for w in s.workers.values() if w.alive and w.arrival and w.uid in told]
    behind = [w for w in asking if w.arrival and w.arrival.round < s.rounds.record.number and not w.fallen]
    if not behind:
        return
    stands = selectors.stands(s)
    _answer(s, {w.uid: told[w.uid] for w in behind if told[w.uid].removed or stands}, now)


def _answer(s: State, told: dict[Uid, Assignment], now: float) -> None:
    for uid, worker in s.workers.items():
        if uid not in told:
            continue
        worker.arrival, worker.told = None, told[uid].round
        if told[uid].removed and worker.released_at is None:
            worker.released_at = now
    if told:
        s.do(Publish(s.rounds.record.number, told))


def _settled(s: State, now: float) -> None:
    """All members train in the round, and rank 0 has made a step: the cost of the change is known."""
    if s.rounds.settled:
        return
    members, record = selectors.ring(s), s.rounds.record
    if record.ring:
        if s.measured.resumed_at is None or len(members) < len(record.ring):
            return
        first = members[0].beat
        if not all(selectors.trains(w, record) for w in members) or not (first and first.step > record.step):
            return
        _changed(s, now)
    elif not record.holding:
        s.rounds.paused_at = None
    s.rounds.settled = True


def _changed(s: State, now: float) -> None:
    """Report the change. For a round that trained before this master came, report only that it is complete."""
    record, before, size = s.rounds.record, s.rounds.before, len(s.rounds.record.ring)
    told = record.number == s.rounds.resized
    idle = None if told else throughput.idle(s)
    s.do(Resized(record.number, before, size, record.cause, idle))
    s.rounds.paused_at = None
    if told:
        return
    s.rounds.last_resize = Resize(before=before, to=size, cause=record.cause, idle_seconds=idle, at=now)
    s.rounds.price = throughput.price(s.rounds.last_resize, s.rounds.price)
    s.rounds.resized, s.rounds.changed_at = s.rounds.record.number, now


def _sentence(s: State) -> str:
    record, size = s.rounds.record, len(s.rounds.record.ring)
    change = f"Round {record.number}: {size} workers instead of {s.rounds.before} ({record.cause})"
    if not size:
        names = ", ".join(seat.name for seat in record.holding)
        return f"{change}; {names} hold the state" if names else change
    batch, scale = throughput.taken_over(s, record)
    change += f"; global batch {batch}" if batch else ""
    return change if scale is None else f"{change}; learning rate × {scale:.4g}"
