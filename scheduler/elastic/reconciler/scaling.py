"""How many workers the job should have now, which ones are started, and which newcomers are no longer needed.

Lives here: which source sets the size, and the comparison of the workers with it. Never here: a policy
(`scheduler.elastic.sizing`), or which workers leave a round (`rank_assignment`).
The quorum is `core`, started together; workers beyond it are `surplus`. A worker that is being replaced does not count,
so its replacement starts first. While the pod watch is down no pod is created: a missing one may exist.
"""

from typing import TypeAlias

from msgspec.structs import replace

from scheduler.elastic.job.spec import Spec
from scheduler.elastic.job.status import Status
from scheduler.elastic.reconciler import selectors, start_backoff, worker_exits
from scheduler.elastic.reconciler.job_effects import Abort, StartWorker, Tell
from scheduler.elastic.reconciler.job_events import Sized, StartRefused, WorkerSeen
from scheduler.elastic.reconciler.job_state import Backoff, Start, State
from scheduler.elastic.reconciler.worker import Worker

Said: TypeAlias = tuple[int, str, str]
"""Size, its author, the reason."""


def said(s: State) -> Said:
    """The size in effect, within the bounds unless the job pauses, with its author and reason."""
    # 1. No worker is needed any more, or no different number.
    if s.completion.over:
        return 0, "gangwright", s.completion.over[2]
    if s.exits.finishing_at is not None:
        return len(s.rounds.record.ring), "gangwright", "a member has finished; the others are about to"
    spec, sized = s.spec, s.sizing.sized
    if spec is not None and spec.suspend:
        return 0, "user", "suspended"
    # 2. Before the spec is known: the decision of the previous master.
    if spec is None:
        return (sized.want, sized.by, sized.reason) if sized else (0, "", "the job is not known yet")
    # 3. The first source with a size decides: the user, the policy, the schedule, the quorum.
    place = spec.stage(selectors.epoch(s)) if spec.schedule else -1
    stated = spec.schedule[place].workers if place >= 0 else None
    if spec.workers is not None:
        return spec.clamp(spec.workers), "user", f"spec.workers is {spec.workers}"
    if sized is not None:
        return spec.clamp(sized.want), sized.by, sized.reason
    if stated is not None:
        return spec.clamp(stated), "schedule", f"schedule[{place}].workers"
    return spec.clamp(spec.min_workers), "quorum", "minWorkers, until the policy decides"


def restored(s: State, status: Status) -> None:
    """The size set by the previous master applies until the policy decides."""
    s.sizing.counter = status.retired or 0
    if status.wanted:
        s.sizing.sized = Sized(status.wanted, status.wanted_by, "unchanged since the master restarted")


def listed(s: State) -> None:
    """Every existing pod has been reported, so no start is in progress."""
    s.sizing.starts.clear()


def sized(s: State, event: Sized, _now: float) -> None:
    """Record the policy's decision."""
    s.sizing.sized = event


def spec_seen(s: State, spec: Spec) -> None:
    """If the user removes the size, it applies until the policy decides, because the policy's last decision may be
    hours old. If all workers have left for a suspension, no size is kept: the free capacity at resumption is unknown.
    """
    former = s.spec
    if former is None or former.workers is None or spec.workers is not None:
        return
    why = f"spec.workers was {former.workers}, until the policy decides"
    gone = former.suspend and not selectors.entitled(s)
    s.sizing.sized = None if gone else Sized(former.clamp(former.workers), "user", why)


def taken_away(s: State, worker: Worker) -> None:
    """Surplus removed by others frees resources that are needed elsewhere; none is recreated until the policy has run.

    A worker that left a draining node had to leave because of the node, and a replacement is on its way.
    """
    if worker.going or not worker.alive or worker.role != "surplus" or worker.node in s.doomed:
        return
    if s.sizing.sized is not None and s.spec is not None:
        less = max(s.spec.min_workers, s.spec.clamp(s.sizing.sized.want) - 1)
        s.sizing.sized = replace(s.sizing.sized, want=less, reason=f"{worker.name} was removed")


def answered(s: State, event: WorkerSeen) -> None:
    """The requested pod exists: match it by number, else with the oldest request for this role."""
    s.sizing.refusal = ""
    waiting = sorted(number for number, start in s.sizing.starts.items() if start.role == event.role)
    number = event.number or next(iter(waiting), 0)
    s.sizing.starts.pop(number, None)
    s.sizing.unseen.pop(number, None)


def numbered(s: State, number: int) -> None:
    """A pod has this number; the next one gets a higher one."""
    s.sizing.counter = max(s.sizing.counter, number)


def cancel(s: State) -> None:
    """Forget all pending starts."""
    s.sizing.starts.clear()
    s.sizing.unseen.clear()
    s.sizing.refusal = ""


def start_refused(s: State, event: StartRefused, now: float) -> None:
    """Record a rejected start, even one that is assumed to have failed by now. A temporary rejection is reported only
    after several attempts; ignoring it would repeat the request without a pause or a message.
    """
    start = s.sizing.starts.pop(event.number, None) or s.sizing.unseen.pop(event.number, None)
    if start is None:
        return
    if event.why != s.sizing.refusal:  # the status repeats it all the time
        s.do(Tell("Warning", "FailedCreate", f"Pod creation failed: {event.why}"))
    s.sizing.refusal = event.why
    start_backoff.failed_again(s, start.role, event.why, now, crowd=event.crowd)


def set_desired(s: State, now: float) -> None:
    """Record a change of size. Members are interrupted only after other changes had a moment to join it, and surplus is
    started only after the size has been stable for a moment.
    """
    want, by, why = said(s)
    if want != s.sizing.want:
        if s.sizing.want:
            s.do(Tell("Normal", "Wanted", f"{want} workers instead of {s.sizing.want}: {why}"))
        s.sizing.want_at = now if s.sizing.want else float("-inf")  # the first size after none needs no delay
    s.sizing.want, s.sizing.wanted_by = want, by


def scale(s: State, now: float) -> None:
    """Start missing workers, and stop those beyond the wanted number."""
    for worker in _parting(s):
        dismiss(s, worker, worker.leaving or "its pod is being deleted", now)
    if _pauses(s):
        for worker in selectors.newcomers(s):
            dismiss(s, worker, "the job does not need it at present", now)
        if not s.blind:
            s.sizing.starts.clear()
            s.sizing.unseen.clear()
        if not selectors.entitled(s):
            s.sizing.sized = None  # the capacity so far says nothing about that at resumption
        return
    newcomers = selectors.newcomers(s)
    if newcomers:
        _trim(s, newcomers, now)
    if s.blind:
        return
    for number, start in list(s.sizing.starts.items()):
        if now - start.at > s.limits.unseen:
            s.sizing.unseen[number] = s.sizing.starts.pop(number)
    # Recreate gated workers that avoid a node which is acceptable by now.
    avoided = set(start_backoff.avoided(s, now))
    for worker in selectors.newcomers(s):
        cleared = sorted(set(worker.avoids) - avoided)
        if cleared and worker.gated:
            dismiss(s, worker, f"recreated: it no longer has to avoid {', '.join(cleared)}", now)
    _start(s, now)


def _pauses(s: State) -> bool:
    """No new worker is needed now."""
    ends = s.completion.over is not None or s.exits.finishing_at is not None
    return ends or s.spec is None or s.spec.suspend


def _parting(s: State) -> list[Worker]:
    """Workers at the barrier that have to leave: no round will ever answer them, although they wait for one."""
    waiting = [w for w in s.workers.values() if w.alive and w.arrival and w.going and not w.stopped]
    if not waiting:
        return []
    kept = selectors.planned(s) | {w.uid for w in selectors.entitled(s)}
    return [w for w in waiting if w.uid not in kept and not selectors.released(s, w)]


def _missing(s: State, want: int) -> dict[str, int]:
    """Number of missing workers: cores for the quorum, surplus up to `want` workers."""
    least = s.spec.min_workers if s.spec else 0
    lasting = selectors.lasting(s)
    coming = [start.role for start in s.sizing.starts.values()]
    cores = max(0, least - sum(w.role == "core" for w in lasting) - coming.count("core"))
    return {"core": cores, "surplus": max(0, want - len(lasting) - len(coming) - cores)}


def delayed(s: State, now: float) -> dict[str, Backoff]:
    """Roles with missing workers that cannot be started yet, and the failures that delay them."""
    lacking = {} if _pauses(s) else _missing(s, s.sizing.want)
    waits = {role: start_backoff.waited_for(s, role, now) for role, count in lacking.items() if count}
    return {role: former for role, former in waits.items() if former is not None}


def due(s: State, now: float) -> float:
    """When a delayed start may be made, or repeated on another node; infinity if there is none."""
    moments = [former.until for former in delayed(s, now).values()]
    moments += [node.until for node in s.backoff.barred.values() if node.until > now]
    stood = s.sizing.want_at + s.limits.stand
    return min((*moments, *([stood] if stood > now else ())), default=float("inf"))


def _start(s: State, now: float) -> None:
    """Start cores up to the quorum, and surplus up to a size that has been stable for a moment."""
    if not any(_missing(s, s.sizing.want).values()):
        return
    waits = delayed(s, now)
    stood = s.sizing.want if s.sizing.want_at + s.limits.stand <= now else 0
    for role, count in _missing(s, stood).items():
        for _ in range(count if role not in waits else 0):
            s.sizing.counter += 1
            s.sizing.starts[s.sizing.counter] = Start(role, now)
            s.do(StartWorker(s.sizing.counter, role, start_backoff.avoided(s, now)))


def _trim(s: State, newcomers: list[Worker], now: float) -> None:
    """Remove newcomers beyond the wanted size at once: that interrupts no training."""
    kept = selectors.planned(s) | {w.uid for w in selectors.entitled(s)}
    lasts = selectors.lasting(s)
    fixed = [w for w in lasts if w.uid in kept]
    free = sorted((w for w in lasts if w.uid not in kept), key=_worth)
    least = s.spec.min_workers if s.spec else 0
    room = max(0, s.sizing.want - len(fixed), least - sum(w.role == "core" for w in fixed))
    for worker in free[room:]:
        dismiss(s, worker, f"{s.sizing.want} workers are wanted", now)
    if len(fixed) + min(room, len(free)) < s.sizing.want:
        return
    for worker in newcomers:
        if not worker.going and worker.node in s.doomed and worker.uid not in kept:
            dismiss(s, worker, f"its node is {s.doomed[worker.node][0]}", now)


def _worth(w: Worker) -> tuple[bool, bool, bool, float, str]:
    """Sort key: lower means that it stays longer."""
    return (w.role != "core", w.arrival is None, not w.seated, w.since, w.uid)


def dismiss(s: State, w: Worker, why: str, now: float) -> None:
    """Remove a newcomer that is not needed: its process is killed, and its pod deleted."""
    w.abort = w.abort or why
    if w.arrival:
        s.do(Abort(w.uid, w.abort))
    worker_exits.stop(s, w, why, now)
