"""What delays the next start of a worker, and which nodes new workers avoid.

Lives here: consecutive failures of each role and of each node. Never here: which exit of a worker is a failure
(`worker_exits`), or which workers are started (`scaling`).
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
"""Seconds within which losses of members are attributed to one cause: two beats."""
WAITS_FOR: Final = {"core": ("core",), "surplus": ("core", "surplus")}
"""Role → roles whose failures delay its next start. Without its quorum a job does not train, so failures of surplus
never delay a core.
"""
ALONE = 5
"""Consecutive failures after which a job takes turns with others: about 15 s, while a leaving pod may hold a quota."""


def restored(s: State, status: Status, now: float) -> None:
    """Nodes stay excluded. The clock of the previous master may have been ahead of this one's."""
    latest = now + s.limits.bar_most
    s.backoff.barred = {one.node: replace(one, until=min(one.until, latest)) for one in status.barred}
    s.backoff.barred_at = {one.node: now for one in status.barred}


def forget(s: State, *, nodes: bool) -> None:
    """Failures of former workers say nothing about new ones; with `nodes`, neither do those of their nodes."""
    s.backoff.roles.clear()
    if nodes:
        s.backoff.barred.clear()
        s.backoff.barred_at.clear()


def reworded(s: State, node: str, before: tuple[str, str], after: tuple[str, str]) -> None:
    """Replace the text of a failure by a better one. before, after: the texts for the node, and for the role."""
    bar = s.backoff.barred.get(node)
    if bar is not None and bar.why == shortened(before[0]):
        s.backoff.barred[node] = replace(bar, why=shortened(after[0]))
    for role, one in s.backoff.roles.items():
        if one.why == before[1]:
            s.backoff.roles[role] = one._replace(why=after[1])


def failed_again(s: State, role: str, why: str, now: float, *, pause: bool = True, crowd: int = 0) -> None:
    """Delay the next start of this role: not after the first consecutive failure, then one second, doubled each time.
    In a crowd of that many failing jobs of the namespace, a job that has failed for a while takes turns with them.

    Simultaneous failures count once: a worker that fails before the next start says nothing about that start.
    """
    former = s.backoff.roles.get(role, Backoff())
    if now < former.until or (not pause and now - former.failed_at < TOGETHER):
        return
    failures, until = former.failures + 1, former.until
    if pause and failures > 1:
        usual = doubled(1.0, failures - 2, s.limits.backoff_most)
        turn = crowd * s.limits.backoff_each
        crowded = failures > ALONE and turn > s.limits.backoff_most
        # A factor from 0.5 to 1.5, from the job's name: starts that were rejected together are not retried together.
        apart = 0.5 + zlib.crc32(s.key.encode()) / 2**32
        until = now + (turn * apart if crowded else usual)
    s.backoff.roles[role] = Backoff(failures, now, until, why)


def waited_for(s: State, role: str, now: float) -> Backoff | None:
    """The failures that delay a start of this role; None: it may start."""
    last = max((s.backoff.roles.get(one, Backoff()) for one in WAITS_FOR[role]), key=lambda one: one.until)
    return last if now < last.until else None


def strike(s: State, node: str, why: str, now: float, *, at_once: bool) -> None:
    """Count a failure of this node: it is avoided at once, or from the second failure on.

    Simultaneous failures of its workers count once; the gravest determines how long it is avoided.
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
    """Nodes that new workers should avoid."""
    barred = {one.node for one in s.backoff.barred.values() if one.until > now}
    return tuple(sorted(barred | set(s.doomed)))


def forgive(s: State, now: float) -> None:
    """Forget old failures: of nodes, to bound memory, and of roles, when they are no longer consecutive."""
    for role, former in list(s.backoff.roles.items()):
        if _steady(s, role, former, now):
            del s.backoff.roles[role]
    for node, at in list(s.backoff.barred_at.items()):
        if now - at > s.limits.forgiven and s.backoff.barred[node].until <= now:
            del s.backoff.barred[node], s.backoff.barred_at[node]


def _steady(s: State, role: str, former: Backoff, now: float) -> bool:
    """The job has trained for a while, and no worker of the role is starting that may fail."""
    trains = bool(s.rounds.record.ring) and s.rounds.settled and s.rounds.transition is None
    asked = any(start.role == role for start in s.sizing.starts.values())
    coming = asked or any(w.role == role and w.seated and w.arrival is None for w in selectors.newcomers(s))
    since = max(former.failed_at, former.until, s.rounds.changed_at or 0.0)
    return trains and not coming and now - since > s.limits.steady
