"""What the next start of a worker waits for, and which nodes new workers avoid.

Lives here: failures in a row of each role, and of each node. Never here: which end of a worker is a failure
(`worker_exits`), or who is started (`scaling`).
"""

import zlib
from typing import Final

from msgspec.structs import replace

from scheduler.elastic.job.status import Barred, Status
from scheduler.elastic.reconciler import selectors
from scheduler.elastic.reconciler.job_state import Backoff, State
from scheduler.errors import shortened
from scheduler.model.durations import doubled

TOGETHER = 2.0
"""Seconds in which members are lost that one cause has taken: two beats."""
WAITS_FOR: Final = {"core": ("core",), "surplus": ("core", "surplus")}
"""Role → those whose failures its next start waits for. Without its quorum a job does not train: whatever becomes of
surplus, a core is not kept waiting for it.
"""
ALONE = 5
"""Failures in a row after which a job does not wait for others: some 15 s, in which a pod that goes may hold a quota."""


def restored(s: State, status: Status, now: float) -> None:
    """Nodes stay barred; the clock of the master before may have been ahead of this one's."""
    latest = now + s.limits.bar_most
    s.backoff.barred = {one.node: replace(one, until=min(one.until, latest)) for one in status.barred}
    s.backoff.barred_at = {one.node: now for one in status.barred}


def forget(s: State, *, nodes: bool) -> None:
    """Failures of former workers say nothing of those to come; nodes: nor do those of their nodes."""
    s.backoff.roles.clear()
    if nodes:
        s.backoff.barred.clear()
        s.backoff.barred_at.clear()


def reworded(s: State, node: str, before: tuple[str, str], after: tuple[str, str]) -> None:
    """A failure is told in better words. before, after: of the node, and of the role."""
    bar = s.backoff.barred.get(node)
    if bar is not None and bar.why == shortened(before[0]):
        s.backoff.barred[node] = replace(bar, why=shortened(after[0]))
    for role, one in s.backoff.roles.items():
        if one.why == before[1]:
            s.backoff.roles[role] = one._replace(why=after[1])


def failed_again(s: State, role: str, why: str, now: float, *, pause: bool = True, crowd: int = 0) -> None:
    """The next start of this role waits: not after the first failure in a row, then one second, doubled by each further
    one. In a crowd, of so many jobs of the namespace, one that has failed for a while waits for its turn.

    Those that fail together are one, however many they are: who fails before the next start is no failure of that.
    """
    former = s.backoff.roles.get(role, Backoff())
    if now < former.until or (not pause and now - former.failed_at < TOGETHER):
        return
    failures, until = former.failures + 1, former.until
    if pause and failures > 1:
        usual = doubled(1.0, failures - 2, s.limits.backoff_most)
        turn = crowd * s.limits.backoff_each
        crowded = failures > ALONE and turn > s.limits.backoff_most
        # From 0.5 to 1.5, by the job's name: many that were refused together are not tried together again.
        apart = 0.5 + zlib.crc32(s.key.encode()) / 2**32
        until = now + (turn * apart if crowded else usual)
    s.backoff.roles[role] = Backoff(failures, now, until, why)


def waited_for(s: State, role: str, now: float) -> Backoff | None:
    """The failures that a start of this role has to wait for; None: it may be made."""
    last = max((s.backoff.roles.get(one, Backoff()) for one in WAITS_FOR[role]), key=lambda one: one.until)
    return last if now < last.until else None


def strike(s: State, node: str, why: str, now: float, *, at_once: bool) -> None:
    """A failure of this node: it is avoided at once, or from the second on.

    Workers of it that fail together are one, however many they are; the gravest says how long it is avoided.
    """
    since = now - s.backoff.barred_at.get(node, now)
    former = s.backoff.barred.get(node) if since < s.limits.forgiven else None
    together = former is not None and since < TOGETHER
    if not node or (together and not at_once):
        return
    failures = (former.failures if former else 0) + (not together)
    doublings = failures - (1 if at_once else 2)
    seconds = doubled(s.limits.bar, doublings, s.limits.bar_most) if doublings >= 0 else 0.0
    until = max(now + seconds, former.until if former else 0.0)
    s.backoff.barred[node] = Barred(node, failures, until, shortened(why))
    if not together:
        s.backoff.barred_at[node] = now


def avoided(s: State, now: float) -> tuple[str, ...]:
    """Nodes that new workers had better not go to."""
    barred = {one.node for one in s.backoff.barred.values() if one.until > now}
    return tuple(sorted(barred | set(s.doomed)))


def forgive(s: State, now: float) -> None:
    """What is long ago is forgotten: nodes, so that memory stays small, and failures, which are in a row no more."""
    for role, former in list(s.backoff.roles.items()):
        if _steady(s, role, former, now):
            del s.backoff.roles[role]
    for node, at in list(s.backoff.barred_at.items()):
        if now - at > s.limits.forgiven and s.backoff.barred[node].until <= now:
            del s.backoff.barred[node], s.backoff.barred_at[node]


def _steady(s: State, role: str, former: Backoff, now: float) -> bool:
    """The job trains, nobody of the role is on the way who may fail, and so it was for a while."""
    trains = bool(s.rounds.record.ring) and s.rounds.settled and s.rounds.transition is None
    asked = any(start.role == role for start in s.sizing.starts.values())
    coming = asked or any(w.role == role and w.seated and w.arrival is None for w in selectors.newcomers(s))
    since = max(former.failed_at, former.until, s.rounds.changed_at or 0.0)
    return trains and not coming and now - since > s.limits.steady
