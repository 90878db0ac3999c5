"""Who is in the next round, and in which order.

Lives here: the choice, a function of what is known. Never here: when a round begins (`round_triggers`, `round_transition`).

    must go   told to end, being deleted, on a doomed node for too long (if enough remain without it)
    stays     the newest state; then those that are not doomed, not slow, of the core, members before newcomers, the
    oldest ranks     members by the newest state, then by their former rank; newcomers last

Nobody goes who alone has the newest state: it stays for one more round, in which the others take that state over; two
where one is wanted. Where no two may train at all it goes, and saves to disk if there is a place.
"""

from msgspec import Struct

from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker


class Choice(Struct, frozen=True):
    """A round's people."""

    ring: tuple[Worker, ...] = ()
    """By rank. Empty: not enough for the quorum."""
    leaving: tuple[Worker, ...] = ()
    holding: tuple[Worker, ...] = ()
    """Who waits with its state, when there is no ring."""


def overdue(s: State, w: Worker, now: float) -> bool:
    """Its node is going to be emptied, and a replacement was waited for long enough."""
    if w.node not in s.doomed:
        return False
    waited = now - s.doomed[w.node][1]
    seated = any(one.seated for one in selectors.newcomers(s))
    return waited > (s.limits.doom if seated else s.limits.doom_seat)


class Order:
    """Whose state is newer, who is older, who is worth more."""

    def __init__(self, s: State) -> None:
        self._s = s
        self._most = s.spec.max_workers if s.spec else 1
        seats = (*s.rounds.record.ring, *s.rounds.record.holding)
        self._ranks = {seat.uid: rank for rank, seat in enumerate(seats)}
        self._known: dict[Uid, int | None] = {}

    def rank(self, w: Worker) -> int | None:
        """Its former rank; None for a newcomer."""
        if w.uid not in self._known:
            self._known[w.uid] = self._ranks.get(w.uid) if selectors.has_state(w) else None
        return self._known[w.uid]

    def seniority(self, w: Worker) -> tuple[bool, int, int, float, str]:
        """The lower, the lower its rank."""
        rank = self.rank(w)
        if rank is None:
            return (True, 1, w.role != "core", w.since, w.uid)
        trained, position = selectors.newness(w)
        return (not trained, -max(0, position), rank, w.since, w.uid)

    def newest(self, stay: list[Worker]) -> Worker | None:
        """One of those with the newest state, a healthy one of the core if there is any: it is in the round in any
        case.
        """
        known = [w for w in stay if self.rank(w) is not None]
        best = max((selectors.newness(w) for w in known), default=None)
        newest = [w for w in known if selectors.newness(w) == best]
        return min(newest, key=lambda w: (*self._faults(w), self.seniority(w)), default=None)

    def heirs(self, newest: Worker | None, stay: list[Worker]) -> int:
        """How many there must be for the newest state not to end with one who is to make way; 0: it need not."""
        better = newest and any(self._faults(w) < self._faults(newest) for w in stay)
        return min(2, self._most) if better else 0

    def worth(self, w: Worker) -> tuple[bool, bool, bool, bool, float, str]:
        """The lower, the longer it stays."""
        return (*self._faults(w)[1:], self.rank(w) is None, w.since, w.uid)

    def _faults(self, w: Worker) -> tuple[bool, bool, bool, bool]:
        return (w.going, w.node in self._s.doomed, w.uid == self._s.straggler.uid, w.role != "core")


def choose(s: State, people: list[Worker], target: int, least: int, now: float) -> Choice:
    """Of these, who trains next: `target` of them if there are so many, never fewer than `least`."""
    gone = [w for w in people if w.going]
    stay = [w for w in people if not w.going]
    kept = _last_holder(gone, stay)
    ring = _fill(s, stay if kept is None else [*stay, kept], target, least, now)
    if ring == [kept]:
        ring = []
    inside = {w.uid for w in selectors.entitled(s)}
    if not ring:
        return Choice((), tuple(gone), tuple(w for w in stay if w.uid in inside and selectors.has_state(w)))
    staying = {w.uid for w in ring}
    leaving = [w for w in people if w.uid not in staying and (w.going or w.uid in inside)]
    return Choice(tuple(ring), tuple(leaving))


def _fill(s: State, stay: list[Worker], target: int, least: int, now: float) -> list[Worker]:
    """Those that are worth most, by rank; none when they are too few."""
    order = Order(s)
    doomed = any(w.node in s.doomed for w in stay)
    if len(stay) <= target and not doomed:  # all of them: only the order is open
        return _as_told(order, sorted(stay, key=order.seniority)) if len(stay) >= least else []
    newest = order.newest(stay)
    stay = sorted(stay, key=lambda w: (w is not newest, order.worth(w)))
    size = min(max(target, order.heirs(newest, stay)), len(stay))
    while size > least and stay[size - 1] is not newest and overdue(s, stay[size - 1], now):
        size -= 1
    return _as_told(order, sorted(stay[:size], key=order.seniority)) if size >= least else []


def _as_told(order: Order, ring: list[Worker]) -> list[Worker]:
    """Each newcomer at the rank that it was told of a round of this size, where that is free."""
    fresh = [w for w in ring if order.rank(w) is None]
    former, size = len(ring) - len(fresh), len(ring)
    told = {w.place[0]: w for w in reversed(fresh) if w.place and w.place[1] == size}
    kept = {rank: w for rank, w in told.items() if former <= rank < size}
    others = iter([w for w in fresh if w not in kept.values()])
    return ring[:former] + [kept.get(rank) or next(others) for rank in range(former, size)]


def _last_holder(gone: list[Worker], stay: list[Worker]) -> Worker | None:
    """One that has to go, and has newer state than all that stay."""
    best = max(gone, key=lambda w: (selectors.newness(w), -w.since, w.uid), default=None)
    if best is None or selectors.position(best) < 0 or not stay:
        return None
    return best if selectors.newness(best) > max(selectors.newness(w) for w in stay) else None
