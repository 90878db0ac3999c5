"""How many workers the job should have now, which are started, and which newcomers are not needed any more.

Lives here: who may say the size, and the comparison of the workers with it. Never here: a policy
(`scheduler.elastic.sizing`), or who leaves a round (`rank_assignment`).
The quorum is `core`, started together; what is wanted above it is `surplus`. A worker that is to be replaced does not
count, so its replacement starts first. While pods are not seen none is created: a missing one may be there.
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
"""Size, by whom, why."""


def said(s: State) -> Said:
    """The size in force, between minimum and maximum unless the job pauses, with its author and reason."""
    # 1. No worker is needed any more, or no other one.
    if s.completion.over:
        return 0, "gangwright", s.completion.over[2]
    if s.exits.finishing_at is not None:
        return len(s.rounds.record.ring), "gangwright", "a member has ended well; the others are about to"
    spec, sized = s.spec, s.sizing.sized
    if spec is not None and spec.suspend:
        return 0, "user", "suspended"
    # 2. Before the spec is read: what the master before said.
    if spec is None:
        return (sized.want, sized.by, sized.reason) if sized else (0, "", "nothing is known of the job yet")
    # 3. The first that says something decides: the user, the policy, the schedule, the quorum.
    place = spec.stage(selectors.epoch(s)) if spec.schedule else -1
    stated = spec.schedule[place].workers if place >= 0 else None
    if spec.workers is not None:
        return spec.clamp(spec.workers), "user", f"spec.workers is {spec.workers}"
    if sized is not None:
        return spec.clamp(sized.want), sized.by, sized.reason
    if stated is not None:
        return spec.clamp(stated), "schedule", f"schedule[{place}].workers"
    return spec.clamp(spec.min_workers), "quorum", "minWorkers, until the policy speaks"


def restored(s: State, status: Status) -> None:
    """What the master before said stands until the policy speaks."""
    s.sizing.counter = status.retired or 0
    if status.wanted:
        s.sizing.sized = Sized(status.wanted, status.wanted_by, "as before the restart")


def listed(s: State) -> None:
    """Every pod that exists has been told, so no start is under way."""
    s.sizing.starts.clear()


def sized(s: State, event: Sized, _now: float) -> None:
    """The policy speaks."""
    s.sizing.sized = event


def spec_seen(s: State, spec: Spec) -> None:
    """Where the user states no size any more, the one that it stated stands until the policy speaks: what that said
    before may be hours old. Where all have gone for a suspension there is none to keep: what there is room for when it
    goes on is not known.
    """
    former = s.spec
    if former is None or former.workers is None or spec.workers is not None:
        return
    why = f"spec.workers was {former.workers}, until the policy speaks"
    gone = former.suspend and not selectors.entitled(s)
    s.sizing.sized = None if gone else Sized(former.clamp(former.workers), "user", why)


def taken_away(s: State, worker: Worker) -> None:
    """Surplus that goes by another's will goes where its room is needed more: none is made again until the policy has
    looked.

    Who left a node that is emptied had to go for the node's sake, and has a replacement coming.
    """
    if worker.going or not worker.alive or worker.role != "surplus" or worker.node in s.doomed:
        return
    if s.sizing.sized is not None and s.spec is not None:
        less = max(s.spec.min_workers, s.spec.clamp(s.sizing.sized.want) - 1)
        s.sizing.sized = replace(s.sizing.sized, want=less, reason=f"{worker.name} was taken away")


def answered(s: State, event: WorkerSeen) -> None:
    """The pod that was asked for is there: by its number, else the one that has waited longest in this role."""
    s.sizing.refusal = ""
    waiting = sorted(number for number, start in s.sizing.starts.items() if start.role == event.role)
    number = event.number or next(iter(waiting), 0)
    s.sizing.starts.pop(number, None)
    s.sizing.unseen.pop(number, None)


def numbered(s: State, number: int) -> None:
    """A pod has this number; the next one has a higher one."""
    s.sizing.counter = max(s.sizing.counter, number)


def cancel(s: State) -> None:
    """No start is waited for any more."""
    s.sizing.starts.clear()
    s.sizing.unseen.clear()
    s.sizing.refusal = ""


def start_refused(s: State, event: StartRefused, now: float) -> None:
    """Also of a start that is taken for not made by now: a refusal that may pass is told after a row of tries, and
    dropped it would be asked for again without a pause and without a word.
    """
    start = s.sizing.starts.pop(event.number, None) or s.sizing.unseen.pop(event.number, None)
    if start is None:
        return
    if event.why != s.sizing.refusal:  # the status says it all the time
        s.do(Tell("Warning", "FailedCreate", f"the API server made no pod: {event.why}"))
    s.sizing.refusal = event.why
    start_backoff.failed_again(s, start.role, event.why, now, crowd=event.crowd)


def set_desired(s: State, now: float) -> None:
    """Note a change. Members are not interrupted for it before others had a moment to join it, nor is surplus started
    before it has stood for a moment.
    """
    want, by, why = said(s)
    if want != s.sizing.want:
        if s.sizing.want:
            s.do(Tell("Normal", "Wanted", f"{want} workers instead of {s.sizing.want}: {why}"))
        s.sizing.want_at = now if s.sizing.want else float("-inf")  # the first wish after none counts as old
    s.sizing.want, s.sizing.wanted_by = want, by


def scale(s: State, now: float) -> None:
    """Start what is missing, stop what is too much."""
    for worker in _parting(s):
        dismiss(s, worker, worker.leaving or "its pod is deleted", now)
    if _pauses(s):
        for worker in selectors.newcomers(s):
            dismiss(s, worker, "the job does not need it now", now)
        if not s.blind:
            s.sizing.starts.clear()
            s.sizing.unseen.clear()
        if not selectors.entitled(s):
            s.sizing.sized = None  # what there was room for says nothing of the room when it goes on
        return
    newcomers = selectors.newcomers(s)
    if newcomers:
        _trim(s, newcomers, now)
    if s.blind:
        return
    for number, start in list(s.sizing.starts.items()):
        if now - start.at > s.limits.unseen:
            s.sizing.unseen[number] = s.sizing.starts.pop(number)
    # Those that wait at their gate, and keep away from a node that is as good as any by now, are made again.
    avoided = set(start_backoff.avoided(s, now))
    for worker in selectors.newcomers(s):
        cleared = sorted(set(worker.avoids) - avoided)
        if cleared and worker.gated:
            dismiss(s, worker, f"made again: it need not avoid {', '.join(cleared)} any more", now)
    _start(s, now)


def _pauses(s: State) -> bool:
    """Nobody is needed now."""
    ends = s.completion.over is not None or s.exits.finishing_at is not None
    return ends or s.spec is None or s.spec.suspend


def _parting(s: State) -> list[Worker]:
    """Who stands at the barrier as a newcomer and has to go: no round will ever answer it, and it waits for one."""
    waiting = [w for w in s.workers.values() if w.alive and w.arrival and w.going and not w.stopped]
    if not waiting:
        return []
    kept = selectors.planned(s) | {w.uid for w in selectors.entitled(s)}
    return [w for w in waiting if w.uid not in kept and not selectors.released(s, w)]


def _missing(s: State, want: int) -> dict[str, int]:
    """So many are too few: cores for the quorum, surplus up to `want` workers."""
    least = s.spec.min_workers if s.spec else 0
    lasting = selectors.lasting(s)
    coming = [start.role for start in s.sizing.starts.values()]
    cores = max(0, least - sum(w.role == "core" for w in lasting) - coming.count("core"))
    return {"core": cores, "surplus": max(0, want - len(lasting) - len(coming) - cores)}


def delayed(s: State, now: float) -> dict[str, Backoff]:
    """Roles of which somebody is missing who may not be started yet, and the failures that this waits for."""
    lacking = {} if _pauses(s) else _missing(s, s.sizing.want)
    waits = {role: start_backoff.waited_for(s, role, now) for role, count in lacking.items() if count}
    return {role: former for role, former in waits.items() if former is not None}


def due(s: State, now: float) -> float:
    """When a start that waits for its time alone may be made, or made again elsewhere; infinity when there is none."""
    moments = [former.until for former in delayed(s, now).values()]
    moments += [node.until for node in s.backoff.barred.values() if node.until > now]
    stood = s.sizing.want_at + s.limits.stand
    return min((*moments, *([stood] if stood > now else ())), default=float("inf"))


def _start(s: State, now: float) -> None:
    """Cores up to the quorum, surplus up to what has been wanted for a moment."""
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
    """Newcomers beyond what is wanted go at once: they interrupt nobody."""
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
    """The lower, the longer it stays."""
    return (w.role != "core", w.arrival is None, not w.seated, w.since, w.uid)


def dismiss(s: State, w: Worker, why: str, now: float) -> None:
    """A newcomer is not needed: its process is ended, and its pod deleted."""
    w.abort = w.abort or why
    if w.arrival:
        s.do(Abort(w.uid, w.abort))
    worker_exits.stop(s, w, why, now)
