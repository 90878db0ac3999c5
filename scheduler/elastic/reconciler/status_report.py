"""The status of a job for users: phase, conditions, members, and a sentence about what it waits for.

Lives here: the status, derived from the state, and the table of phases. Never here: anything that a job depends on,
except that a restarted master reads `assignment`, `barred` and `restarts` back from it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from scheduler.elastic.job.status import BatchSeen, Condition, Member, Next, Phase, Round, Status, WorkerPhase
from scheduler.elastic.reconciler import (
    checkpoints,
    round_plan,
    scaling,
    selectors,
    template_revision,
    throughput,
    worker,
)
from scheduler.elastic.reconciler.job_events import Uid
from scheduler.elastic.reconciler.job_state import State
from scheduler.elastic.reconciler.round_triggers import cause, picture, resting, waits
from scheduler.elastic.reconciler.worker import Worker
from scheduler.errors import shortened


def _suspended(s: State) -> bool:
    return bool(s.spec and s.spec.suspend)


TABLE: Final[tuple[tuple[Phase, Callable[[State], bool]], ...]] = (
    (Phase.SUSPENDED, lambda s: _suspended(s) and not s.workers),
    (Phase.SUSPENDING, _suspended),
    (Phase.FINISHING, lambda s: s.exits.finishing_at is not None),
    (Phase.RESIZING, lambda s: s.rounds.transition is not None and bool(s.rounds.record.ring)),
    (Phase.RUNNING, lambda s: bool(s.rounds.record.ring) and s.rounds.settled),
    (Phase.RESIZING, lambda s: bool(s.rounds.record.ring) and s.rounds.before > 0),
    (Phase.STARTING, lambda s: bool(s.rounds.record.ring) or _seated(s)),
    (Phase.QUEUED, lambda _: True),
)


def _seated(s: State) -> bool:
    """The quorum is assigned to nodes."""
    least = s.spec.min_workers if s.spec else 1
    return sum(w.seated for w in (*selectors.entitled(s), *selectors.newcomers(s))) >= least


def phase(s: State) -> Phase:
    """The first phase of the table whose condition holds; an end is final."""
    if s.completion.over:
        return Phase(s.completion.over[0])
    return next(name for name, holds in TABLE if holds(s))


def reason(s: State, now: float) -> str:
    """What the job waits for; otherwise why it has its size."""
    if s.completion.over:
        return s.completion.over[2]
    if s.problems:
        return "Invalid spec: " + "; ".join(map(str, s.problems))
    if not s.listed:
        return "The master is starting and listing workers"
    want, by, why = scaling.said(s)
    wanted = f"{want} workers wanted by {by}" + (f": {why}" if why else "") if by else ""
    said = waiting(s, now) or wanted
    return "; ".join(part for part in (_unseen(s), said) if part)


def _unseen(s: State) -> str:
    return f"{s.blind}; no workers are started until the pod watch recovers" if s.blind else ""


def waiting(s: State, now: float) -> str:
    """What the job waits for; empty if it does not wait."""
    saver = selectors.saving(s)
    if saver:
        return f"{saver.name} is saving a checkpoint"
    if s.saving.error and _suspended(s) and s.rounds.record.holding:
        keep = ", ".join(seat.name for seat in s.rounds.record.holding)
        return (
            f"Checkpoint failed; state kept in memory by {keep} until the job is resumed or suspended again: "
            f"{s.saving.error}"
        )
    if s.exits.finishing_at is not None:
        return f"Training finished; still running: {selectors.names(selectors.busy(s))}"
    if s.rounds.transition:
        moving = f"Round {s.rounds.transition.number} ({s.rounds.transition.cause})"
        if s.rounds.transition.planned:
            return f"{moving} is being written to the API server"
        return f"{moving} is waiting at the barrier for {selectors.names(selectors.awaited(s))}"
    p = picture(s, now)
    found = cause(p)
    late = waits(p) if found and not found.urgent else ""
    if found and late:
        return f"Next round ({found.name}) delayed: {late}"
    if resting(p):
        failed = s.rounds.fruitless + 1
        return f"{failed} rounds failed without a commit since step {s.rounds.record.step}; the next one is delayed"
    return _starting(s, now)


def _starting(s: State, now: float) -> str:
    """Newcomers, and starts that are delayed."""
    lead, fresh = "", selectors.newcomers(s)
    if not s.rounds.record.ring and s.spec and not s.spec.suspend:
        have = len(selectors.holders(s)) + len(selectors.ready(s))
        lead = f"{have} of {s.spec.min_workers} quorum workers ready; "
    gated = selectors.names(w for w in fresh if not w.seated)
    coming = selectors.names(w for w in fresh if w.seated and not w.arrival)
    parts = (gated and f"{gated} waiting to be scheduled", coming and f"{coming} starting", _refused(s, now))
    return lead + "; ".join(part for part in parts if part)


def _refused(s: State, now: float) -> str:
    waits = scaling.delayed(s, now)
    said = []
    for one in dict.fromkeys(waits.values()):
        roles = " and ".join(role for role in waits if waits[role] is one)
        # A clock time: remaining seconds would change the text at every look.
        at = f"{datetime.fromtimestamp(one.until, UTC):%H:%M:%S} UTC"
        after = f"after {one.failures} consecutive failures: {one.why}"
        said.append(f"next start of {roles} at {at}, {after}")
    return "; ".join(said) or (s.sizing.refusal if s.sizing.starts else "")


def status(s: State, now: float) -> Status:
    """The whole status. No member of a finished job trains, even if its last round lists some."""
    planned = s.rounds.transition and s.rounds.transition.planned
    record = planned or s.rounds.record  # the round being written to the API server, or the one stored there
    ring = () if s.completion.over else record.ring
    # All workers: those of the round by rank, then the others by age.
    ranks = {seat.uid: rank for rank, seat in enumerate(record.ring)}
    people = sorted(s.workers.values(), key=lambda w: (ranks.get(w.uid, len(ranks)), w.since, w.uid))
    rate = s.measured.rate
    return Status(
        phase=phase(s),
        reason=reason(s, now),
        conditions=tuple(s.conditions[name] for name in sorted(s.conditions)),
        round=record.number,
        workers=len(ring),
        selector=s.selector,
        wanted=s.sizing.want,
        wanted_by=s.sizing.wanted_by,
        members=tuple(_member(w, ranks) for w in people),
        # Four digits: it is a mean of a few steps, and `kubectl get` prints the number as it is.
        samples_per_second=float(f"{rate:.4g}") if ring and rate is not None else None,
        batch=_batch(s, record) if ring else None,
        last_resize=s.rounds.last_resize,
        restarts=s.exits.restarts,
        next_change=_next(s, now),
        checkpoint=s.saving.checkpoint,
        observed_generation=s.generation,
        values=dict(s.measured.values),
        uses=None if s.measured.uses is None else tuple(sorted(s.measured.uses)),
        assignment=record if record.number else None,
        barred=tuple(s.backoff.barred[node] for node in sorted(s.backoff.barred)),
        template=template_revision.kept_former(s),
        retired=s.template.retired,
        started_at=s.rounds.started_at,
    )


def _member(w: Worker, ranks: dict[Uid, int]) -> Member:
    state = worker.phase(w)
    return Member(
        name=w.name,
        uid=w.uid,
        rank=None if state is WorkerPhase.LOST else ranks.get(w.uid),
        phase=state,
        node=w.node,
        role=w.role,
        step=w.step,
        committed=w.beat.committed if w.beat else 0,
        step_seconds=w.took,
        compute_seconds=w.compute,
        reason=shortened(w.lost or w.cause or w.stopped or w.leaving or w.waiting),
    )


def _batch(s: State, record: Round) -> BatchSeen:
    whole, scale = throughput.taken_over(s, record)
    first = round_plan.batch(record, 0) if whole else None
    return BatchSeen(record.batch_mode, whole, first.local if first else None, scale)


def _next(s: State, now: float) -> Next | None:
    """The schedule's next entry, or the next start after failures."""
    waits = scaling.delayed(s, now)
    if waits:
        role = min(waits, key=lambda one: waits[one].until)
        return Next(at=waits[role].until, reason=f"next start of {role} after failures")
    if s.spec is None or s.completion.over:
        return None
    place = s.spec.stage(selectors.epoch(s)) + 1
    if place >= len(s.spec.schedule):
        return None
    entry = s.spec.schedule[place]
    return Next(workers=entry.workers, epoch=entry.epoch, reason=f"schedule[{place}]")


def _stale(s: State) -> str:
    """Members that use an outdated rank or size, and where their script read it."""
    told = [(w, w.beat.stale) for w in selectors.ring(s) if w.beat and w.beat.stale]
    if not told or s.completion.over:
        return ""
    where = f"a different rank or size than the round's, read at {told[0][1]}"
    remedy = "Read it in the training function, or register a reset callback"
    return f"{selectors.names(w for w, _ in told)} set up with {where}. {remedy}"


def _epoch_told(s: State) -> dict[str, template_revision.Fact]:
    """Empty if the schedule uses no epoch, or the script's reports are unknown."""
    schedule = s.spec.schedule if s.spec and s.measured.uses is not None and not s.completion.over else ()
    later = next((place for place, one in enumerate(schedule) if one.epoch > 0), None)
    if later is None:
        return {}
    if not throughput.tells_no_epoch(s):
        return {"EpochReported": (True, "EpochsReported", "")}
    message = (
        f"schedule[{later}] begins at epoch {schedule[later].epoch:g}, but the script reports no epoch. "
        "Call gangwright.epoch(done), or take the samples from gangwright.shard()"
    )
    return {"EpochReported": (False, "NoEpochReported", message)}


def _facts(s: State) -> dict[str, template_revision.Fact]:
    """Condition → status, reason, message."""
    now_phase, stale, moving = phase(s), _stale(s), s.rounds.transition
    failed, unheard = s.saving.error, s.health.unheard
    _, ended_by, ended = s.completion.over or ("", now_phase.value, "")
    trains = bool(s.rounds.record.ring) and not s.completion.over
    problems = "; ".join(map(str, s.problems))
    return {
        "Accepted": (not problems, "InvalidSpec" if problems else "ValidSpec", problems),
        "QuorumReady": (trains, now_phase.value, ended),
        "Resizing": (moving is not None, moving.cause if moving else "None", ""),
        "HeartbeatsReceived": (
            not unheard,
            "HeartbeatsMissing" if unheard else "HeartbeatsReceived",
            unheard,
        ),
        "SetupRankStale": (bool(stale), "ReadDuringSetup" if stale else "None", stale),
        "TemplateChanged": template_revision.fact(s),
        "PodWatchHealthy": (not s.blind, "WatchFailed" if s.blind else "WatchHealthy", _unseen(s)),
        checkpoints.FAILED: (bool(failed), checkpoints.FAILED if failed else "None", failed),
        "Suspended": (now_phase is Phase.SUSPENDED, now_phase.value, ""),
        "Complete": (now_phase is Phase.SUCCEEDED, now_phase.value, ended),
        "Failed": (now_phase is Phase.FAILED, ended_by, ended),
        **_epoch_told(s),
    }


def restored(s: State, status: Status) -> None:
    """Restore the conditions: each keeps the time of its last change, even if another master set it."""
    s.conditions = {one.type: one for one in status.conditions}


def turn(s: State, now: float) -> None:
    """Update the conditions; each has the time of its last change. Conditions that are no longer known are removed."""
    facts = _facts(s)
    if s.spec is not None:
        s.conditions = {name: one for name, one in s.conditions.items() if name in facts}
    for name, (holds, why, message) in facts.items():
        former = s.conditions.get(name)
        since = former.last_transition_time if former and former.status == holds else now
        s.conditions[name] = Condition(name, holds, why, message, since, s.generation)
