"""Which workers are in the next round, and in which order.

Lives here: the choice, a function of the state. Never here: when a round begins (`round_triggers`, `round_transition`).

    leave     asked to exit, being deleted, on a draining node for too long (if enough remain without it)
    stay      the newest state; then those not on draining nodes, not slow, core, members before newcomers, the oldest
    ranks     members by the newest state, then by their former rank; newcomers last

A worker that alone has the newest state does not leave at once. It stays for one more round, in which the others take
over its state, even if that makes two where one is wanted. If no two may train at all, it leaves, and saves to disk if
there is a path.
"""

from msgspec import Struct

from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.worker import Worker


class Choice(Struct, frozen=True):
    """The members of a round, and the rest."""

    ring: tuple[Worker, ...] = ()
    """By rank. Empty: not enough for the quorum."""
    leaving: tuple[Worker, ...] = ()
    holding: tuple[Worker, ...] = ()
    """Workers that keep their state and wait, if there is no ring."""


def overdue(s: State, w: Worker, now: float) -> bool:
    """Its node is being drained, and a replacement was awaited for long enough."""
    if w.node not in s.doomed:
        return False
    waited = now - s.doomed[w.node][1]
    seated = any(one.seated for one in selectors.newcomers(s))
    return waited > (s.limits.doom if seated else s.limits.doom_seat)


class Order:
    """Compares workers by newness of state, seniority and value to the round."""

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
        """Sort key: lower means a lower rank."""
        rank = self.rank(w)
        if rank is None:
            return (True, 1, w.role != "core", w.since, w.uid)
        trained, position = selectors.newness(w)
        return (not trained, -max(0, position), rank, w.since, w.uid)

    def newest(self, stay: list[Worker]) -> Worker | None:
        """A worker with the newest state, if possible a healthy one of the core. It is in the round in any case."""
        known = [w for w in stay if self.rank(w) is not None]
        best = max((selectors.newness(w) for w in known), default=None)
        newest = [w for w in known if selectors.newness(w) == best]
        return min(newest, key=lambda w: (*self._faults(w), self.seniority(w)), default=None)

    def heirs(self, newest: Worker | None, stay: list[Worker]) -> int:
        """Members needed so that the newest state outlives a worker that should be replaced; 0: no need."""
        better = newest and any(self._faults(w) < self._faults(newest) for w in stay)
        return min(2, self._most) if better else 0

    def worth(self, w: Worker) -> tuple[bool, bool, bool, bool, float, str]:
        """Sort key: lower means that it stays longer."""
        return (*self._faults(w)[1:], self.rank(w) is None, w.since, w.uid)

    def _faults(self, w: Worker) -> tuple[bool, bool, bool, bool]:
        return (w.going, w.node in self._s.doomed, w.uid == self._s.straggler.uid, w.role != "core")


def choose(s: State, people: list[Worker], target: int, least: int, now: float) -> Choice:
    """Choose which of these workers train next: `target` if there are as many, never fewer than `least`."""
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
    """The most valuable workers, by rank; none if they are too few."""
    order = Order(s)
    doomed = any(w.node in s.doomed for w in stay)
    if len(stay) <= target and not doomed:  # all of them are in; only their order is open
        return _as_told(order, sorted(stay, key=order.seniority)) if len(stay) >= least else []
    newest = order.newest(stay)
    stay = sorted(stay, key=lambda w: (w is not newest, order.worth(w)))
    size = min(max(target, order.heirs(newest, stay)), len(stay))
    while size > least and stay[size - 1] is not newest and overdue(s, stay[size - 1], now):
        size -= 1
    return _as_told(order, sorted(stay[:size], key=order.seniority)) if size >= least else []


def _as_told(order: Order, ring: list[Worker]) -> list[Worker]:
    """Put each newcomer at the rank announced for a round of this size, if that rank is free."""
    fresh = [w for w in ring if order.rank(w) is None]
    former, size = len(ring) - len(fresh), len(ring)
    told = {w.place[0]: w for w in reversed(fresh) if w.place and w.place[1] == size}
    kept = {rank: w for rank, w in told.items() if former <= rank < size}
    others = iter([w for w in fresh if w not in kept.values()])
    return ring[:former] + [kept.get(rank) or next(others) for rank in range(former, size)]


def _last_holder(gone: list[Worker], stay: list[Worker]) -> Worker | None:
    """A worker that has to leave, and has newer state than all that stay."""
    best = max(gone, key=lambda w: (selectors.newness(w), -w.since, w.uid), default=None)
    if best is None or selectors.position(best) < 0 or not stay:
        return None
    return best if selectors.newness(best) > max(selectors.newness(w) for w in stay) else None
