"""The rank that a newcomer should expect: its script asks for rank and size before there is a round.

Lives here: the rank and size announced to each newcomer, and which processes are restarted because they were told
different ones. Never here: the choice of a round's members (`rank_assignment`), which predicts the next round.
"""

from collections.abc import Iterable

from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_effects import Abort, Place
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.rank_assignment import choose
from scheduler.elastic.reconciler.worker import Worker

MISPLACED = "its rank or size differs from the one announced during its setup, so its process is restarted"
APART = "a member was lost before all members had set up together, so its process is restarted"


def look(s: State, now: float) -> None:
    """Restart processes that cannot meet, and set each newcomer's rank in the next round."""
    _set_up_together(s)
    if s.spec is None or s.completion.over:
        return
    fresh = [w for w in selectors.newcomers(s) if w.seated]
    if not fresh:
        return
    inside = [w for w in selectors.entitled(s) if not w.going]
    least, wanted = s.spec.min_workers, s.spec.clamp(s.sizing.want)
    if first(s):
        cores = [w for w in fresh if w.role == "core"]
        if len(cores) < least:
            return
        _expect(s, cores, cores, least, now)
        fresh, inside = [w for w in fresh if w not in cores], cores[:least]
    _expect(s, [*inside, *fresh], fresh, wanted, now)
    if unplaced := [w for w in fresh if w.place is None]:
        lasting = [w for w in (*inside, *fresh) if w.node not in s.doomed and w.uid != s.straggler.uid]
        _expect(s, lasting, unplaced, s.spec.clamp(max(wanted, len(lasting))), now)


def _set_up_together(s: State) -> None:
    """All members of a gang set up in one round, or each alone: a later worker can't receive what they exchanged."""
    ring, paused = selectors.ring(s), s.spec is not None and s.spec.suspend
    apart = len(ring) < len(s.rounds.record.ring) or any(w.arrival and w.arrival.setup for w in ring)
    for worker in ring if s.rounds.record.setup and apart and not paused else ():
        start_again(s, worker, APART)
    ready = [(w, w.arrival) for w in selectors.ready(s) if w.arrival and w.role == "core"]
    together = any(arrival.setup for _, arrival in ready) and first(s)
    for worker, arrival in ready:
        may = not arrival.again or arrival.why == "another"  # once, or it has met others in an earlier setup
        if (arrival.setup and not first(s)) or (together and not arrival.setup and may):
            start_again(s, worker, APART)


def _expect(s: State, people: list[Worker], those: list[Worker], target: int, now: float) -> None:
    """Predict the round of `people` for the workers in `those`. A rank that a script has read does not change."""
    if not those:
        return
    least = s.spec.min_workers if s.spec else 1
    ring = choose(s, people, target, least, now).ring
    for worker in those:
        if worker in ring and (worker.arrival is None or worker.arrival.place is None):
            worker.placed_at = now if worker.place is None else worker.placed_at
            worker.place = (ring.index(worker), len(ring))


def told(s: State, worker: Worker) -> Place | None:
    """The rank and size announced to this newcomer. None: not known yet, or it is in a round."""
    inside = worker in selectors.entitled(s)
    if worker.place is None or inside or s.spec is None:
        return None
    return Place(*worker.place, joins=not first(s) or worker.place[0] >= s.spec.min_workers)


def first(s: State) -> bool:
    """The gang's first round is still to come: all its members are newcomers."""
    return not selectors.entitled(s)


def size(s: State) -> int:
    """Number of members of the next round. If a script has asked, the gang's first round has the announced size."""
    if s.spec is None:
        return 0
    return s.spec.min_workers if _asked(s) or s.rounds.record.setup else s.spec.clamp(s.sizing.want)


def _asked(s: State) -> bool:
    """Scripts of the gang rely on what they were told about its first round."""
    return first(s) and any(w.arrival and w.arrival.place for w in selectors.ready(s))


def able(s: State) -> list[Worker]:
    """Newcomers at the barrier that can be in one round. Workers whose scripts still set up meet only each other. If
    scripts asked for the gang's first round, surplus was told to expect the second one.
    """
    ready = [w for w in selectors.ready(s) if not w.restarting and (w.role == "core" or not _asked(s))]
    setup = [w for w in ready if w.arrival and w.arrival.setup]
    return setup if setup and first(s) else [w for w in ready if w not in setup]


def misplaced(ring: Iterable[Worker]) -> list[Worker]:
    """Members of a future round that set up for another rank or size, and can still be restarted."""
    people, found = tuple(ring), list[Worker]()
    for rank, w in enumerate(people):
        young = w.arrival if w.arrival and w.arrival.why == "newcomer" and not w.arrival.again else None
        if young and young.place not in {None, (rank, len(people))}:
            found.append(w)
    return found


def displaced(s: State, ring: Iterable[Worker]) -> list[Worker]:
    """Restart the misplaced members, and return them."""
    wrong = misplaced(ring)
    for worker in wrong:
        start_again(s, worker, MISPLACED)
    return wrong


def start_again(s: State, worker: Worker, why: str) -> None:
    """Kill the process and restart it in its pod. This does not count as a failure."""
    if worker.restarting or not worker.alive or worker.going:
        return
    worker.restarting, worker.abort, worker.arrival = True, why, None
    s.do(Abort(worker.uid, why))
