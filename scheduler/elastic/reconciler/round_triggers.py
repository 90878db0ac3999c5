"""Why a round has to end: a table of causes, most urgent first.

Lives here: each cause with its name, whether it can wait for a quiet moment, and when it holds. Never here: what is
done (`round_transition`).
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from scheduler.elastic.job.status import WorkerPhase
from scheduler.elastic.reconciler import expected_ranks, selectors
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.rank_assignment import choose, overdue
from scheduler.elastic.reconciler.worker import Worker
from scheduler.model.durations import doubled

FAILED: Final = "CollectiveFailed"
"""The cause if members are back from a round with a failed collective, and none is gone."""

FRUITLESS: Final = 3
"""Rounds that may fail without a commit before the next one is delayed. If ranks call a collective with different
shapes, it fails in every round. PyTorch's Horovod cannot tell that from a lost peer, and stock Horovod retries at once,
without end.
"""
PAUSE_MOST: Final = 60.0
"""Maximum seconds between the starts of two such rounds; one at first, doubled for each further one."""


class Picture(Struct, frozen=True):
    """The round as it is, and as it would be if it began now."""

    s: State
    now: float
    members: tuple[Worker, ...]
    """Members that are alive."""
    wish: tuple[Worker, ...]
    """The next round's members; empty if there are too few, and while the job is suspended."""

    dropped: tuple[Worker, ...] = ()
    """Members that would not be in the next round."""
    joining: tuple[Worker, ...] = ()
    """Workers in the next round that are not members yet."""


def picture(s: State, now: float) -> Picture:
    """Evaluate the workers that could be in a round at once."""
    spec = s.spec
    if spec is None:
        return Picture(s, now, (), ())
    inside = selectors.entitled(s)
    if spec.suspend:
        return Picture(s, now, tuple(inside), (), dropped=tuple(inside))
    able, size = expected_ranks.able(s), expected_ranks.size(s)
    moved = any(w.going or w.arrival or w.node in s.doomed for w in inside)
    if not able and len(inside) == size and not moved:
        return Picture(s, now, tuple(inside), tuple(inside))  # no change
    wish = choose(s, [*inside, *able], size, spec.min_workers, now).ring
    dropped = tuple(w for w in inside if w not in wish)
    return Picture(s, now, tuple(inside), wish, dropped, tuple(w for w in wish if w not in inside))


def _to_end(p: Picture) -> bool:
    s = p.s
    if s.exits.finishing_at is not None:
        return any(w.arrival for w in p.members)
    kept = bool(s.saving.error) and not s.rounds.record.ring
    return bool(s.spec and s.spec.suspend and p.members and not kept)


def _lost(p: Picture) -> bool:
    """A worker that has the state is gone."""
    seats = len(p.s.rounds.record.ring) + len(p.s.rounds.record.holding)
    return len(p.members) < seats


def _failed(p: Picture) -> bool:
    number = p.s.rounds.record.number
    ring = selectors.ring(p.s)
    return any((w.arrival and w.arrival.round >= number) or _cut_off(w, number) for w in ring)


def resting(p: Picture) -> bool:
    """Its members are back from another round that failed without a commit, and the next one is delayed."""
    s, over = p.s, p.s.rounds.fruitless + 1 - FRUITLESS
    if over < 0 or any(selectors.position(w) > s.rounds.record.step for w in selectors.ring(s)):
        return False
    return _failed(p) and p.now < s.rounds.published_at + doubled(1.0, over, PAUSE_MOST)


def _next(p: Picture) -> bool:
    """The members at the barrier begin their script's next training."""
    back = [w for w in selectors.ring(p.s) if w.arrival]
    return bool(back) and all(selectors.began_another(w) for w in back)


def _cut_off(w: Worker, number: int) -> bool:
    """It meets the others through values lost with the previous master, which assigned it to the round."""
    ready = w.beat is not None and w.beat.phase == WorkerPhase.READY and w.arrival is None
    return ready and w.in_round == number != w.told


def _stage(p: Picture) -> bool:
    """The schedule's present entry changes more than the size. An earlier entry counts if an older state was loaded."""
    spec, record = p.s.spec, p.s.rounds.record
    if spec is None or not spec.schedule or not record.ring:
        return False
    place, back = spec.stage(selectors.epoch(p.s)), selectors.began_in(p.s) < record.epoch
    if place == record.stage or (place < record.stage and not back):
        return False
    entry = spec.schedule[place]
    return entry.env != record.env or spec.per_worker(place) != record.per_worker


class Cause(Struct, frozen=True):
    name: str
    urgent: bool
    holds: Callable[[Picture], bool]


def _swapped_for(p: Picture, test: Callable[[Worker], bool]) -> bool:
    return any(test(w) for w in p.dropped) and bool(p.wish)


TABLE: Final[tuple[Cause, ...]] = (
    Cause("Shutdown", urgent=True, holds=_to_end),
    Cause("WorkerLost", urgent=True, holds=_lost),
    Cause("NextTraining", urgent=True, holds=_next),
    Cause(FAILED, urgent=True, holds=lambda p: _failed(p) and not resting(p)),
    Cause("BoundsChanged", urgent=True, holds=lambda p: not selectors.allowed(p.s) and bool(p.wish)),
    Cause("WorkerLeaving", urgent=True, holds=lambda p: any(w.going for w in p.members)),
    Cause("QuorumReached", urgent=False, holds=lambda p: not p.s.rounds.record.ring and bool(p.wish)),
    Cause("NodeDrain", urgent=False, holds=lambda p: _swapped_for(p, lambda w: w.node in p.s.doomed)),
    Cause("Straggler", urgent=False, holds=lambda p: _swapped_for(p, lambda w: w.uid == p.s.straggler.uid)),
    Cause("ScaleUp", urgent=False, holds=lambda p: len(p.wish) > len(p.members)),
    Cause("ScaleDown", urgent=False, holds=lambda p: 0 < len(p.wish) < len(p.members)),
    Cause("WorkerReplaced", urgent=False, holds=lambda p: bool(p.wish) and bool(p.dropped)),
    Cause("NextPhase", urgent=False, holds=_stage),
)


def cause(p: Picture) -> Cause | None:
    """The first cause that holds; while members exit, the first row is the only urgent one that counts."""
    ends = p.s.exits.finishing_at is not None
    rows = (row for row in TABLE if not (ends and row.urgent) or row is TABLE[0])
    return next((row for row in rows if row.holds(p)), None)


def waits(p: Picture) -> str:
    """Why a change that can wait is delayed; empty if it is not."""
    s, now = p.s, p.now
    if s.exits.finishing_at is not None:
        return "members are about to exit"
    if now - s.sizing.want_at < s.limits.coalesce and s.rounds.record.ring:
        return "further changes are batched with it"
    if s.rounds.record.ring and not s.rounds.settled and now - s.rounds.published_at < s.limits.settle:
        return "the current round has not started to train"
    # Wait a while for newcomers that are almost ready, so that one round includes them all.
    if not p.joining or (not s.rounds.record.ring and any(selectors.has_state(w) for w in p.members)):
        return ""
    late = [w for w in selectors.newcomers(s) if w.seated and not w.arrival and not overdue(s, w, now)]
    if not late or len(p.wish) >= expected_ranks.size(s):
        return ""
    if s.rounds.record.ring:
        since, patience = s.rounds.joining_at, s.limits.newcomers
    else:
        since = min((w.ready_at for w in p.joining if w.ready_at is not None), default=None)
        patience = s.limits.coalesce
    if expected_ranks.misplaced(p.wish):
        patience = s.limits.start  # they were told about the late ones, and would be restarted for nothing
    return f"waiting for {selectors.names(late)}" if since is None or now - since < patience else ""
